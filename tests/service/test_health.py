"""The heartbeat file, `bee health`, and `Hive.health`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

import bee_core as bee
from bee_core.errors import BeeError
from bee_core.health import QueueHealth, queue_health
from bee_core.service.pulse import HeartbeatFile, Pulse, read_pulse, summed
from bee_core.testing import running
from tests.cli.conftest import Bee
from tests.servers import RedisServer, short_directory, valkey_binary

from .support import Service

FINE = QueueHealth(fetched_ago=0.5, full=False, ready=True, running=2, held=3, stuck=0, settled=9)


def pulse(**changes: object) -> Pulse:
    now = time.time()
    base = Pulse(pid=7, time=now, started=now - 60, state="working", queues={"mail": FINE})
    return msgspec.structs.replace(base, **changes)


def write(path: Path, **changes: object) -> str:
    HeartbeatFile(path).write(pulse(**changes))
    return str(path)


async def test_a_worker_writes_how_it_is_and_removes_it_at_the_end(service: Service) -> None:
    file = service.directory / "heartbeat"
    process = service.start("--heartbeat-file", "heartbeat")
    await service.send("sleep", 3, count=2)
    await service.until(lambda: file.exists() and read_pulse(file).queues[service.queue].running)

    seen = read_pulse(file)
    live = service.run("health", "--heartbeat-file", "heartbeat")
    ready = service.run("health", "--ready", "--json", BEE_HEARTBEAT_FILE="heartbeat")

    assert process.pid == seen.pid
    assert "working" == seen.state
    assert (0, 0) == (live.returncode, ready.returncode)
    assert live.stdout.startswith("well: working, 2 running")
    assert [True, None] == [json.loads(ready.stdout)[name] for name in ("ok", "problem")]
    process.send_signal(signal.SIGTERM)
    await service.until(lambda: not file.exists() or read_pulse(file).state == "stopping")
    assert 0 == await service.code(process)
    assert not file.exists()


async def test_the_file_grows_old_when_the_loop_is_blocked(service: Service) -> None:
    file = service.directory / "heartbeat"
    service.start("--heartbeat-file", "heartbeat")
    await service.send("block", 3600)
    await service.begun()
    last = read_pulse(file)
    await asyncio.sleep(2)

    dead = service.run("health", "--heartbeat-file", "heartbeat", "--max-age", "1500ms")

    assert last.time == read_pulse(file).time
    assert 1 == dead.returncode
    assert "has been silent for" in dead.stdout


async def test_several_processes_have_one_file(service: Service) -> None:
    file = service.directory / "heartbeat"
    process = service.start("--processes", "2", BEE_HEARTBEAT_FILE="heartbeat")
    await service.until(lambda: file.exists() and read_pulse(file).state == "working")
    await service.send(count=10)
    await service.until(lambda: read_pulse(file).queues[service.queue].settled == 10)

    seen = read_pulse(file)
    ready = service.run("health", "--heartbeat-file", "heartbeat", "--ready")

    assert process.pid == seen.pid
    assert 2 == len({one.pid for one in seen.processes} - {process.pid})
    assert 0 == ready.returncode
    assert not any(one.processes for one in seen.processes)
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)
    assert not file.exists()


async def test_a_worker_without_its_broker_lives_but_is_not_ready(tmp_path: Path) -> None:
    server = RedisServer(valkey_binary(), directory=short_directory(), keep=True)
    service = Service(tmp_path, server.url)
    try:
        service.start("--heartbeat-file", "heartbeat")
        file = tmp_path / "heartbeat"
        await service.until(lambda: file.exists() and read_pulse(file).state == "working")
        server.kill()

        live = service.run("health", "--heartbeat-file", "heartbeat")
        ready = service.run("health", "--heartbeat-file", "heartbeat", "--ready")
    finally:
        service.clean_up()
        server.stop()

    assert 0 == live.returncode
    assert 1 == ready.returncode
    assert ready.stdout.startswith("the broker does not answer: ")
    assert 1 == len(ready.stdout.splitlines())


async def test_a_worker_that_never_had_a_broker_is_starting(service: Service) -> None:
    file = service.directory / "heartbeat"
    service.start("--heartbeat-file", "heartbeat", "--url", "redis://127.0.0.1:1")
    await service.until(file.exists)

    assert "starting" == read_pulse(file).state
    assert not read_pulse(file).queues[service.queue].ready


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": "starting"}, "it is starting"),
        ({"state": "stopping"}, "it is stopping"),
        (
            {"queues": {"mail": msgspec.structs.replace(FINE, ready=False, fetched_ago=40.0)}},
            "queue 'mail' has not heard from the broker for 40 s",
        ),
        (
            {"queues": {"mail": msgspec.structs.replace(FINE, ready=False, fetched_ago=None)}},
            "queue 'mail' has not heard from the broker yet",
        ),
    ],
)
def test_not_ready_is_said_in_one_line(
    bee_command: Bee,
    tmp_path: Path,
    changes: dict[str, object],
    says: str,
) -> None:
    file = write(tmp_path / "heartbeat", **changes)

    live = bee_command("health", "--heartbeat-file", file)
    ready = bee_command("health", "--heartbeat-file", file, "--ready")

    assert 0 == live.exit_code
    assert (1, f"{says}\n") == (ready.exit_code, ready.output)


def test_a_file_that_was_left_before_the_clock_was_set_back_is_no_sign_of_life(
    bee_command: Bee, tmp_path: Path
) -> None:
    file = write(tmp_path / "heartbeat", time=time.time() + 3600)

    answer = bee_command("health", "--heartbeat-file", file)

    assert 1 == answer.exit_code
    assert "process 7 has been silent for" in answer.output


def test_a_silent_process_among_several_is_dead(bee_command: Bee, tmp_path: Path) -> None:
    silent = pulse(pid=8, time=time.time() - 100)
    file = write(tmp_path / "heartbeat", processes=[pulse(), silent])

    answer = bee_command("health", "--heartbeat-file", file)

    assert 1 == answer.exit_code
    assert answer.output.startswith("process 8 has been silent for 100 s (allowed: 30 s)")
    assert 0 == bee_command("health", "--heartbeat-file", file, "--max-age", "2m").exit_code


@pytest.mark.parametrize(
    ("content", "says"), [(None, "no heartbeat file"), (b"{}", "is not a heartbeat file of bee")]
)
def test_a_file_that_says_nothing_is_a_problem_in_words(
    bee_command: Bee,
    tmp_path: Path,
    content: bytes | None,
    says: str,
) -> None:
    file = tmp_path / "heartbeat"
    if content is not None:
        file.write_bytes(content)

    answer = bee_command("health", "--heartbeat-file", str(file), "--json")

    assert 1 == answer.exit_code
    assert says in json.loads(answer.output)["problem"]
    with pytest.raises(BeeError):
        read_pulse(file)


def test_without_a_file_only_the_broker_can_be_asked(bee_command: Bee, valkey: RedisServer) -> None:
    assert 2 == bee_command("health").exit_code
    assert (0, "well: the broker answers\n") == (
        (answer := bee_command("health", "--ready", "--url", valkey.url)).exit_code,
        answer.output,
    )
    assert 1 == bee_command("health", "--ready", "--url", "redis://127.0.0.1:1").exit_code


@pytest.mark.parametrize("age", ["soon", "5 weeks", "-1s", "1e9", "nan", "", "999999h"])
def test_what_is_no_duration_is_wrong_use(bee_command: Bee, age: str) -> None:
    assert 2 == bee_command("health", "--ready", "--max-age", age).exit_code


def test_the_worst_of_several_counts() -> None:
    slow = msgspec.structs.replace(FINE, ready=False, fetched_ago=40.0, full=True)

    both = summed([pulse(), pulse(queues={"mail": slow, "films": FINE})])

    assert FINE == both["films"]
    mail = both["mail"]
    assert (False, 40.0, False) == (mail.ready, mail.fetched_ago, mail.full)
    assert (4, 6, 18) == (mail.running, mail.held, mail.settled)


def test_a_heartbeat_file_that_cannot_be_removed_stops_nobody_from_leaving(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    file = HeartbeatFile(directory / "heartbeat")
    directory.rmdir()
    directory.touch()

    file.remove()

    assert directory.is_file()


def test_a_heartbeat_file_is_never_half_written(tmp_path: Path) -> None:
    file = HeartbeatFile(tmp_path / "heartbeat")
    file.write(pulse(pid=1))
    with (tmp_path / "heartbeat").open("rb") as reader:
        file.write(pulse(pid=2))

        assert 1 == msgspec.json.decode(reader.read(), type=Pulse).pid
    assert 2 == read_pulse(tmp_path / "heartbeat").pid
    file.remove()
    assert [] == os.listdir(tmp_path)


# Hive.health


class Nap(bee.Job):
    seconds: float = 0.0


@pytest.fixture
def hive() -> bee.Hive:
    hive = bee.Hive("memory://", concurrency=1)
    queue = hive.queue("naps", Nap)

    @queue.handler
    async def nap(job: Nap, delivery: bee.Delivery[Nap]) -> None:
        await asyncio.Event().wait()

    return hive


async def test_a_hive_that_works_is_ready_and_one_that_does_not_is_not(hive: bee.Hive) -> None:
    before = hive.health()
    async with running(hive) as bees:
        await bees.advance(1)
        during = hive.health()
        hive.stop()
        stopping = hive.health()
    after = hive.health()

    assert (False, False) == (before.alive, before.ready)
    assert (True, True) == (during.alive, during.ready)
    assert (True, False, True) == (stopping.alive, stopping.ready, stopping.stopping)
    assert (False, False) == (after.alive, after.ready)


async def test_a_worker_whose_slots_are_all_busy_is_healthy(hive: bee.Hive) -> None:
    async with running(hive) as bees:
        await hive.queues["naps"].send(Nap())
        await bees.advance(100)

        naps = hive.health().queues["naps"]

        assert (True, True, 1, 1) == (naps.full, naps.ready, naps.running, naps.held)


@pytest.mark.parametrize(
    ("ago", "poll", "full", "ready"),
    [
        (None, 1.0, False, False),
        (9.9, 1.0, False, True),
        (10.1, 1.0, False, False),
        (10.1, 5.0, False, True),
        (15.1, 5.0, False, False),
        (1000.0, 1.0, True, True),
    ],
)
def test_an_answer_is_recent_for_ten_seconds_or_three_polls(
    ago: float | None, poll: float, full: bool, ready: bool
) -> None:
    last = None if ago is None else 5000.0 - ago
    none = {"running": 0, "held": 0, "stuck": 0, "settled": 0}

    health = queue_health(now=5000.0, last_fetched=last, full=full, poll=poll, **none)

    assert ready == health.ready


def test_queues_in_memory_are_nobody_elses_to_ask(bee_command: Bee) -> None:
    answer = bee_command("health", "--ready")

    assert 2 == answer.exit_code
    assert "memory:// lives inside one process" in answer.output
