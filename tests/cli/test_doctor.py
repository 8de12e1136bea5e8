"""`bee doctor`: what it finds on real servers, what it says of it, and with which code it ends."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

import bee_core
from bee_core.broker import Described, Store
from bee_core.diagnosis import Declared, Look, Seen, findings
from bee_core.ids import new_id
from bee_core.message import Draft, Settlement
from bee_core.presence import presence_here, written
from bee_core.stored import Finding, Holder, QueueStats, Server
from tests.servers import PgServer, RedisServer, free_port, valkey_binary
from tests.stores.pg_migrations.support import apply_now

from .conftest import Bee, RunBee

PROGRAM = """
import bee_core as bee

class Known(bee.Job): pass
class Other(bee.Job): pass

hive = bee.Hive()
mail = hive.queue("mail", Known)
mail.handler(lambda job: None)
films = hive.queue("films", Known)
half = hive.queue("half", Known | Other)
half.on(Known)(lambda job: None)
"""


class Known(bee_core.Job):
    """The program knows it."""


class Strange(bee_core.Job):
    """It does not."""


def do(url: str, deed: Callable[[Store], Awaitable[object]]) -> None:
    async def go() -> None:
        async with bee_core.connect(url) as store:
            await deed(store)

    asyncio.run(go())


@pytest.fixture(params=["valkey", "pg"])
def url(request: pytest.FixtureRequest) -> str:
    """Of a real server, where nothing is yet."""
    server: RedisServer | PgServer = request.getfixturevalue(request.param)
    if isinstance(server, RedisServer):
        return f"{server.url}?prefix=doctor-{new_id()[-8:]}"
    database = server.database()
    apply_now(database)
    return database


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of its own for every test: a module is loaded once only."""
    name = f"program_{new_id()[-8:]}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return f"{name}:hive"


def texts(answer_output: str, level: str) -> list[tuple[str | None, str]]:
    found = json.loads(answer_output)["findings"]
    return [(one["queue"], one["topic"]) for one in found if one["level"] == level]


def test_a_store_that_is_well_is_described(bee: Bee, url: str) -> None:
    answer = bee("doctor", "--url", url)

    assert 0 == answer.exit_code, answer.output
    lines = answer.output.splitlines()
    assert lines[0].startswith("bee-jobs ")
    assert "psycopg 3" in lines[0]
    assert lines[2].startswith(("Valkey ", "PostgreSQL "))
    assert "answers within " in lines[2]
    assert "no problem found" == lines[-1]


def test_queues_are_told_with_what_to_do(bee: Bee, url: str) -> None:
    async def fill(store: Store) -> None:
        for name in ("lonely", "paused", "kept"):
            await bee_core.Queue(store, name, Known).send(Known())
        await store.pause("paused")
        await store.pause("resting")
        await store.announce("kept", "ann:1:x", about="", duration=60)

    do(url, fill)

    answer = bee("doctor", "--url", url)
    as_json = bee("doctor", "--url", url, "--json")

    assert 1 == answer.exit_code == as_json.exit_code
    assert re.search(r"problem: queue lonely: 1 job is ready, .* and nobody works", answer.output)
    assert (
        "problem: queue paused: it is paused, and 1 job waits. Go on with: bee resume"
        in answer.output
    )
    assert "hint: queue resting: it is paused, and empty" in answer.output
    assert "2 problems found" in answer.output
    assert [("lonely", "no worker"), ("paused", "paused")] == texts(as_json.output, "problem")
    found = json.loads(as_json.output)
    assert ["kept", "lonely", "paused", "resting"] == [one["name"] for one in found["queues"]]
    assert 1 == found["queues"][1]["stats"]["ready"]
    assert not found["ok"]


def test_kinds_that_no_worker_knows_are_found(bee: Bee, url: str) -> None:
    async def fill(store: Store) -> None:
        await bee_core.Queue(store, "mail", Strange).send(Strange())
        about = written(presence_here(5, ["known"]))
        await store.announce("mail", "ann:1:x", about=about, duration=60)

    do(url, fill)

    answer = bee("doctor", "--url", url)

    assert 1 == answer.exit_code
    assert "jobs wait whose kind its workers do not know: strange" in answer.output


def test_a_program_is_compared_with_what_is_there(bee: Bee, url: str, program: str) -> None:
    async def fill(store: Store) -> None:
        await bee_core.Queue(store, "mail", Strange).send(Strange(), delay=3600)
        await bee_core.Queue(store, "films", Known).send(Known())
        old = bee_core.Queue(store, "half", Strange)
        await old.send(Strange())
        (lease,) = await store.lease("half", limit=1, duration=60, holder="x")
        await store.settle("half", [Settlement(lease.receipt, bee_core.Archive())])
        await store.send("unheard-of", [Draft("a", b"{}")])

    do(url, fill)

    answer = bee("doctor", program, "--url", url, "--json")

    assert 1 == answer.exit_code, answer.output
    problems = texts(answer.output, "problem")
    assert ("mail", "kinds") in problems
    assert ("films", "handlers") in problems
    assert ("half", "handlers") in problems
    assert [("half", "kinds"), ("unheard-of", "program")] == [
        found for found in texts(answer.output, "hint") if found[0]
    ]
    assert "nobody handles Other" in answer.output


def test_without_a_url_the_broker_of_the_program_is_asked(
    bee: Bee, valkey: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"program_{new_id()[-8:]}"
    text = PROGRAM.replace("Hive()", f"Hive('{valkey.url}?prefix=own')")
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))

    answer = bee("doctor", name)

    assert "RedisBroker on" in answer.output
    assert 1 == answer.exit_code


def test_a_database_without_a_schema_is_a_problem(bee: Bee, pg: PgServer) -> None:
    answer = bee("doctor", "--url", pg.database())

    assert 1 == answer.exit_code, answer.output
    assert "problem: the database has no schema 'bee' of bee's." in answer.output
    assert "bee db apply --url" in answer.output


def test_functions_of_another_bee_are_a_problem(bee: Bee, pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)
    name = url.partition("?")[0].rpartition("/")[2]
    pg.ask("update bee.version set functions = 'others'", database=name)

    answer = bee("doctor", "--url", url)

    assert 1 == answer.exit_code, answer.output
    assert "but its functions are another bee's. Run: bee db apply" in answer.output


def test_a_server_that_may_lose_jobs_is_a_problem(bee: Bee) -> None:
    server = RedisServer(valkey_binary(), "--maxmemory-policy", "allkeys-lru")
    try:
        answer = bee("doctor", "--url", server.url)
    finally:
        server.stop()

    assert 1 == answer.exit_code, answer.output
    assert "problem: maxmemory-policy is allkeys-lru, which may delete jobs" in answer.output
    assert "hint: appendonly is off" in answer.output


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
@pytest.mark.parametrize("with_program", [False, True])
def test_a_server_that_is_not_there_is_one_sentence(
    bee: Bee, program: str, scheme: str, with_program: bool
) -> None:
    url = f"{scheme}://localhost:{free_port()}/0"

    answer = bee("doctor", *[program] * with_program, "--url", url)

    assert 3 == answer.exit_code
    assert answer.stderr.startswith("Error: ")
    assert "" == answer.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "memory:// lives inside one process"),
        (("--url", "nosuch://"), "no broker for nosuch://"),
        (("nowhere:hive",), "there is no module 'nowhere'"),
    ],
)
def test_wrong_use(bee: Bee, words: tuple[str, ...], says: str) -> None:
    answer = bee("doctor", *words)

    assert 2 == answer.exit_code
    assert says in answer.stderr


def test_a_program_in_memory_cannot_be_looked_at(bee: Bee, program: str) -> None:
    answer = bee("doctor", program)

    assert 2 == answer.exit_code
    assert "memory:// lives inside one process" in answer.stderr


def test_variables_and_files_are_remarked_on(
    bee: Bee, valkey: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BEE_WROKER_GRACE", "1")
    (tmp_path / "bee.toml").write_text("nonsense = 1")

    answer = bee("doctor", "--url", f"{valkey.url}?prefix=empty")

    assert 0 == answer.exit_code
    assert "hint: bee knows no variable BEE_WROKER_GRACE" in answer.output
    assert "hint: unknown setting in bee.toml: nonsense" in answer.output


def test_the_executable_does_the_same(run_bee: RunBee, url: str) -> None:
    answer = run_bee("doctor", "--url", url)

    assert (0, "") == (answer.returncode, answer.stderr)


async def test_the_stores_say_what_they_are(url: str) -> None:
    async with bee_core.connect(url) as store:
        assert isinstance(store, Described)
        server = await store.describe()

    assert 0 < server.round_trip < 5
    assert abs(server.ahead) < 2
    assert [] == list(server.findings)


# What is decided, without a server.


def seen(*queues: Look, server: Server | None = None) -> Seen:
    return Seen(server=server, ailments=[], queues=queues)


def queue(stats: QueueStats, *workers: Holder, archived_an_hour: float | None = None) -> Look:
    return Look(
        name="mail",
        stats=stats,
        workers=workers,
        waiting={},
        archived={},
        archived_an_hour=archived_an_hour,
    )


def worker(concurrency: int = 10, version: str | None = None) -> Holder:
    presence = presence_here(concurrency, [])
    if version is not None:
        presence = msgspec.structs.replace(presence, version=version)
    return Holder(f"ann:{concurrency}:{version}", until=1.0, about=written(presence))


@pytest.mark.parametrize(
    ("stats", "level", "says"),
    [
        (QueueStats(ready=1, leased=10, oldest_due=70), "hint", "all 10 slots are busy"),
        (QueueStats(ready=1, leased=10, oldest_due=700), "problem", "the oldest for 12 min, and"),
        (QueueStats(ready=1, leased=2, oldest_due=700), "problem", "only 2 of 10 slots are busy"),
    ],
)
def test_what_waits_too_long_is_told_with_a_reason(
    stats: QueueStats, level: str, says: str
) -> None:
    (found,) = findings(seen(queue(stats, worker())))

    assert level == found.level
    assert says in found.text


def test_what_waits_for_a_moment_is_fine() -> None:
    assert [] == findings(seen(queue(QueueStats(ready=100, oldest_due=5), worker())))


def test_an_archive_that_nobody_prunes_is_a_problem() -> None:
    stats = QueueStats(archived={"succeeded": 99_999, "failed": 2})

    found, _ = findings(seen(queue(stats, archived_an_hour=3600)))

    assert "100001 jobs are in its archive, of late about 3600 an hour" in found.text


def test_failures_in_the_archive_are_a_hint() -> None:
    archived = {"succeeded": 5, "stalled": 1, "failed": 7, "cancelled": 2, "ruled": 1}

    (found,) = findings(seen(queue(QueueStats(archived=archived))))

    assert ("hint", "failures") == (found.level, found.topic)
    assert found.text.startswith("in its archive: 7 failed, 1 stalled. bee list ")


def test_workers_of_several_versions_are_a_hint() -> None:
    (found,) = findings(seen(queue(QueueStats(), worker(1, "0.1"), worker(1, "0.2"))))

    assert ("hint", "its workers have different versions of bee: 0.1, 0.2") == (
        found.level,
        found.text,
    )


@pytest.mark.parametrize(("ahead", "way"), [(30.0, "ahead of"), (-30.0, "behind")])
def test_clocks_that_differ_are_a_problem(ahead: float, way: str) -> None:
    server = Server(name="X", round_trip=0.001, ahead=ahead)

    (found,) = findings(seen(server=server))

    assert found.text.startswith(f"the server's clock is 30.0 s {way} the one here")


def test_what_a_far_server_says_of_its_clock_is_not_believed() -> None:
    far = Server(name="X", round_trip=4.0, ahead=3.0, remarks=[Finding("a", "b")])

    assert ["a", "distance"] == [found.topic for found in findings(seen(server=far))]


def test_a_program_that_only_sends_is_told_who_works() -> None:
    program = {"mail": Declared(frozenset({"known"}), sends_only=True)}

    (found,) = findings(seen(queue(QueueStats(), worker())), program)

    assert ("hint", "handlers") == (found.level, found.topic)
    assert "; 1 work on it" in found.text
