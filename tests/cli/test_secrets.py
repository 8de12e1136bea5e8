"""No password in anything that is printed, logged, raised or shown, whatever the command.

Every command that there is, is run with URLs that carry one: with no server there, with one that
refuses it, and with one that accepts it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import click
import psutil
import pytest
from click.testing import CliRunner

import bee_core
from bee_core.cli import main
from bee_core.config import read_settings
from bee_core.ids import new_id
from bee_core.url import Url
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.servers import PgServer, RedisServer, free_port, valkey_binary
from tests.stores.pg_migrations.support import apply_now

from .test_help import COMMANDS

ROOT = Path(__file__).parents[2]
OURS = tuple(str(ROOT / name) for name in ("bee_core", "bee_redis", "bee_pg", "bee_memory"))
SECRET = "hunter2"
LEAVES = [words for words, command in COMMANDS.items() if not isinstance(command, click.Group)]
APART = [words for words in LEAVES if words[0] in {"worker", "top", "chaos"}]
"""They take over signals or the terminal, or do not end by themselves."""
IN_PROCESS = [words for words in LEAVES if words not in APART and words != ("demo",)]
PROGRAM = """
import bee_core as bee

class Known(bee.Job): pass

hive = bee.Hive()
mail = hive.queue("mail", Known)
mail.handler(lambda job: None)
mail.schedule("daily", Known(), every=3600)
"""

NOBODY = [
    "redis://:{secret}@127.0.0.1:{free}",
    "redis+cluster://ada:{secret}@127.0.0.1:{free}",
    "redis+sentinel://127.0.0.1:{free}/mymaster?sentinel_password={secret}",
    "postgresql://ada:{secret}@127.0.0.1:{free}/shop",
    "postgresql://127.0.0.1:{free}/shop?user=ada&password={secret}",
]
ODD = [
    "redis://ada:{secret}@[localhost",
    "redis://ada:{secret}/x@localhost",
    "redis://ada:{secret}#x@localhost",
    "redis://ada:{secret}@localhost?colour=1",
    "postgresql://ada:{secret}/x@localhost",
    "postgresql://ada:{secret}@localhost/shop?colour=1",
    "postgresql://ada:{secret}@localhost?password={secret}&password={secret}",
    "nosuch://ada:{secret}@localhost",
    "{secret}",
]
REFUSED = [
    "redis://bob:{secret}@127.0.0.1:{redis}",
    "redis://:{secret}@127.0.0.1:{redis}",
    "postgresql://bob:{secret}@127.0.0.1:{pg}/shop",
    "postgresql://127.0.0.1:{pg}/shop?user=bob&password={secret}",
]
ACCEPTED = [
    "redis://ada:{secret}@127.0.0.1:{redis}",
    "postgresql://ada:{secret}@127.0.0.1:{pg}/shop",
    "postgresql://127.0.0.1:{pg}/bare?user=ada&password={secret}",
]


@pytest.fixture(scope="module")
def redis_port() -> Iterator[int]:
    """Of a server where ada has that password, and bob another one."""
    server = RedisServer(valkey_binary(), port=free_port())
    for name, password in (("ada", SECRET), ("bob", "other")):
        server.ask("ACL", "SETUSER", name, "on", f">{password}", "~*", "&*", "+@all")
    yield server.port
    server.stop()


@pytest.fixture(scope="module")
def pg_port() -> Iterator[int]:
    """The same, with a database that bee is set up in, and one where it is not."""
    server = PgServer(18, port=free_port())
    for name, password in (("ada", SECRET), ("bob", "other")):
        server.ask(f"create role {name} login superuser password '{password}'")
    for name in ("shop", "bare"):
        server.ask(f"create database {name}")
    apply_now(server._url("shop"))
    rules = ["local all all trust", "host all postgres all trust", "host all all all scram-sha-256"]
    (server.directory / "data" / "pg_hba.conf").write_text("\n".join(rules) + "\n")
    server.ask("select pg_reload_conf()")
    deadline = time.monotonic() + 10
    while _lets_in(f"postgresql://bob:{SECRET}@127.0.0.1:{server.port}/shop"):
        assert time.monotonic() < deadline, "the server does not ask for passwords"
        time.sleep(0.05)
    yield server.port
    server.stop()


def _lets_in(url: str) -> bool:
    import psycopg

    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """One of the above, with its numbers."""
    text: str = request.param
    values: dict[str, object] = {"secret": SECRET, "free": free_port()}
    for name in ("redis", "pg"):
        if f"{{{name}}}" in text:
            values[name] = request.getfixturevalue(f"{name}_port")
    return text.format(**values)


def leaked(text: str) -> list[str]:
    return [line for line in text.splitlines() if SECRET in line]


def words_for(words: tuple[str, ...], url: str, here: Path, *, by_option: bool) -> list[str]:
    """The command with arguments that reach the broker, as far as that can be guessed."""
    name = f"program_{new_id()[-8:]}"
    (here / f"{name}.py").write_text(PROGRAM)
    (here / "file").write_text('{"queue": "mail", "id": "a", "body": {}}\n')
    said = [*words]
    for parameter in COMMANDS[words].params:
        label = f"{parameter.metavar or parameter.name}".upper()
        if isinstance(parameter, click.Option):
            if parameter.name == "url" and by_option:
                said += ["--url", url]
            elif parameter.name == "yes":
                said.append("--yes")
        elif "URL" in label:
            said.append(url)
        elif "MODULE" in label:
            said.append(f"{name}:hive")
        elif "FILE" in label:
            said.append("file")
        elif "QUEUE" in label:
            said.append("mail")
        elif parameter.required or "ID" in label:
            said.append("daily" if parameter.name == "name" else "a")
    return said


def our_locals(error: BaseException, trace: TracebackType | None) -> Iterator[str]:
    """The local variables of our own frames, of that error and of all that led to it."""
    shown = traceback.TracebackException(type(error), error, trace, capture_locals=True)
    todo, seen = [shown], set()
    while todo:
        one = todo.pop()
        for other in (one.__cause__, one.__context__):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                todo.append(other)
        for frame in one.stack:
            if frame.filename.startswith(OURS):
                for name, value in (frame.locals or {}).items():
                    yield f"{frame.filename}:{frame.lineno} {name} = {value}"


@pytest.mark.parametrize("words", IN_PROCESS, ids=" ".join)
@pytest.mark.parametrize("url", [*NOBODY, *ODD, *REFUSED, *ACCEPTED], indirect=True)
def test_a_command_shows_no_password(
    url: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    caplog.set_level(logging.DEBUG)
    for way in ("--url", "BEE_URL", "bee.toml"):
        (tmp_path / "bee.toml").unlink(missing_ok=True)
        monkeypatch.delenv("BEE_URL", raising=False)
        if way == "BEE_URL":
            monkeypatch.setenv("BEE_URL", url)
        if way == "bee.toml":
            (tmp_path / "bee.toml").write_text(f"url = '{url}'\n")
        said = words_for(words, url, tmp_path, by_option=way == "--url")

        answer = CliRunner().invoke(main, said, input="y\n")

        assert [] == leaked(answer.output), way
        assert answer.exception is None or isinstance(answer.exception, SystemExit), way
        if answer.exc_info is not None and answer.exception is not None:
            text = "".join(traceback.format_exception(answer.exception))
            assert [] == [line for line in leaked(text) if "CliRunner" not in line], way
            shown = our_locals(answer.exception, answer.exc_info[2])
            assert [] == [line for line in shown if SECRET in line], way
    assert [] == leaked(caplog.text)


@pytest.mark.parametrize(
    ("url", "code"),
    [*((url, 3) for url in (*NOBODY, *REFUSED)), *((url, 1) for url in ACCEPTED[:2])],
    indirect=["url"],
)
def test_the_servers_are_as_they_are_called(url: str, code: int) -> None:
    assert code == CliRunner().invoke(main, ["explain", "mail", "a", "--url", url]).exit_code


@pytest.mark.parametrize("words", APART, ids=" ".join)
@pytest.mark.parametrize("url", [NOBODY[0], NOBODY[3], *REFUSED[::2], *ACCEPTED[:2]], indirect=True)
@pytest.mark.parametrize("more", [[], ["--processes", "2"]], ids=["alone", "two"])
def test_a_service_shows_no_password(
    url: str, words: tuple[str, ...], more: list[str], tmp_path: Path
) -> None:
    if words != ("worker",) and more:
        pytest.skip("it has no processes")
    if words == ("worker",):
        more = [*more, "--until-empty", "--log-level", "debug", "--events", "events"]
    said = words_for(words, url, tmp_path, by_option=True)

    output = run_for_a_while([*said, *more], tmp_path)

    assert [] == leaked(output)
    events = tmp_path / "events"
    assert [] == leaked(events.read_text() if events.exists() else "")


def run_for_a_while(words: list[str], here: Path, seconds: float = 2.5) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bee_core.cli", *words]
    with (here / "said").open("w+b") as said:
        process = subprocess.Popen(
            command, cwd=here, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(20)
    return (here / "said").read_text()


@pytest.mark.parametrize("url", [ACCEPTED[0]], indirect=True)
@pytest.mark.parametrize("more", [["--processes", "2"], ["--reload"]], ids=" ".join)
def test_the_processes_of_a_supervisor_have_no_password_on_their_command_line(
    url: str, more: list[str], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "bee_core.cli", "worker", "shop", "--url", url, *more]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=said)
    try:
        deadline = time.monotonic() + 20
        while b"worker started" not in (tmp_path / "said").read_bytes():
            assert time.monotonic() < deadline, (tmp_path / "said").read_text()
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)

        assert children
        assert [] == [one.cmdline() for one in children if SECRET in " ".join(one.cmdline())]
        assert all("shop" in one.cmdline() for one in children)
    finally:
        process.terminate()
        assert 0 == process.wait(20)


# What programs see.


@pytest.mark.parametrize("url", [*NOBODY, *ODD, *REFUSED], indirect=True)
def test_no_error_of_a_broker_shows_it(url: str) -> None:
    async def ask() -> None:
        async with bee_core.connect(url) as broker:
            await broker.queues()

    with pytest.raises(bee_core.BeeError) as caught:
        asyncio.run(ask())

    error: BaseException | None = caught.value
    shown = list(our_locals(caught.value, caught.tb))
    assert [] == [line for line in shown if SECRET in line]
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args!r}"
        error = error.__cause__


@pytest.mark.parametrize("url", [*NOBODY, *ACCEPTED], indirect=True)
def test_no_repr_shows_it(url: str) -> None:
    hive = bee_core.Hive(url)
    shown: list[object] = [hive, hive.broker, bee_core.connect(url), Url(url), read_settings(url)]
    shown += [vars(hive), vars(hive.broker), vars(Url(url))["text"]]

    assert [] == [one for one in shown if SECRET in repr(one)]


@pytest.mark.parametrize("kind", [RedisBroker, PgBroker])
def test_a_broker_that_is_made_by_hand_shows_it_no_more(
    kind: type[RedisBroker] | type[PgBroker],
) -> None:
    scheme = "redis" if kind is RedisBroker else "postgresql"
    broker = kind(f"{scheme}://ada:{SECRET}@localhost/0")

    assert SECRET not in repr(broker)
    assert SECRET not in repr(vars(broker))
