"""`bee worker --processes`: started, watched, replaced, stopped; never left alone."""

from __future__ import annotations

import asyncio
import os
import signal

import psutil
import pytest

import bee_core as bee
from tests.servers import PgServer
from tests.stores.pg_migrations.support import apply

from .support import Service, children


def pids(service: Service) -> set[int]:
    return {pid for pid, _ in service.journal("begins")}


async def test_jobs_run_in_all_processes_and_a_signal_stops_them_all(service: Service) -> None:
    process = service.start("--processes", "2", "--concurrency", "1")
    await service.working(2)
    await service.send("sleep", 0.5, count=6)
    await service.begun(2)

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process)
    assert 2 == len(pids(service))
    assert service.journal("begins") != []
    assert sorted(service.journal("begins")) == sorted(service.journal("ends"))
    assert 2 == service.said().count("worker stopped")


async def test_the_work_of_all_is_done_when_the_queue_is_empty(service: Service) -> None:
    await service.send("sleep", 0.2, count=20)

    process = service.start("--processes", "2", "--until-empty", "--events", "events")

    assert 0 == await service.code(process)
    assert 0 == (await service.stats()).live
    assert 20 == len(service.journal("ends"))
    assert 20 == len(service.events("AttemptSettled")), service.events()


async def test_it_works_on_postgresql_too(service: Service, pg: PgServer) -> None:
    service.url = pg.database()
    await apply(service.url)
    await service.send(count=20)

    process = service.start("--processes", "2", "--until-empty")

    assert 0 == await service.code(process)
    assert 20 == len(service.journal("ends"))


async def test_a_process_that_crashes_is_started_again(service: Service) -> None:
    process = service.start("--processes", "2", "--events", "events")
    await service.working(2)

    await service.send("die")
    await service.working(3)

    assert "signal=SIGKILL" in service.said()
    await service.until(lambda: service.events("ProcessEnded"))
    ended = service.events("ProcessEnded")
    assert [("SIGKILL", None, False)] == [(e["signal"], e["code"], e["wanted"]) for e in ended]
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)


async def test_a_process_that_somebody_else_stops_is_replaced(service: Service) -> None:
    process = service.start("--processes", "2", "--events", "events")
    await service.working(2)

    os.kill(children(process.pid)[0].pid, signal.SIGTERM)

    await service.working(3)
    await service.until(lambda: service.events("ProcessEnded"))
    assert [True] == [event["wanted"] for event in service.events("ProcessEnded")]


async def test_no_process_outlives_a_supervisor_that_is_killed(service: Service) -> None:
    process = service.start("--processes", "2", "--grace", "500ms")
    (id,) = await service.send("sleep", 3600)
    await service.begun()
    left = children(process.pid)
    assert 2 == len(left)

    process.kill()

    await service.until(lambda: not any(child.is_running() for child in left), within=6)
    assert 1 == (await service.stored(id)).counters.releases


async def test_the_second_signal_hurries_and_the_third_kills(service: Service) -> None:
    process = service.start("--processes", "2", GRACE="3600", CANCEL_GRACE="3600")
    await service.send("block in C")
    await service.begun()

    for _ in range(3):
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.2)

    assert 130 == await service.code(process, within=5)
    assert [] == [child for child in psutil.process_iter() if child.ppid() == process.pid]


async def test_ctrl_c_reaches_the_supervisor_alone(service: Service) -> None:
    process = service.start("--processes", "2")
    await service.working(2)

    groups = {os.getpgid(child.pid) for child in children(process.pid)}

    assert os.getpgid(process.pid) not in groups
    assert 2 == len(groups)


async def test_a_process_that_has_done_its_jobs_is_replaced_while_the_last_ones_run(
    service: Service,
) -> None:
    process = service.start("--processes", "1", "--max-jobs", "3", "--events", "events")
    (long,) = await service.send("sleep", 4)
    await service.begun()
    await service.send(count=3)
    await service.working(2)
    await service.send()
    await service.until(lambda: len(pids(service)) == 2)

    assert long not in {id for _, id in service.journal("ends")}
    await service.until(lambda: long in {id for _, id in service.journal("ends")})
    await service.until(lambda: service.events("ProcessEnded"))
    ended = service.events("ProcessEnded")
    assert [(0, True)] == [(event["code"], event["wanted"]) for event in ended]
    process.send_signal(signal.SIGTERM)
    assert 0 == await service.code(process)
    stats = await service.stats()
    assert bee.QueueStats(created=5, token=stats.token) == stats


async def test_alone_it_leaves_when_it_has_done_its_jobs(service: Service) -> None:
    await service.send(count=300)  # some more are done while it hears that three are settled

    process = service.start("--max-jobs", "3", "--concurrency", "1")

    assert 0 == await service.code(process)
    assert 3 <= len(service.journal("ends")) < 300


async def test_it_leaves_when_it_has_grown_too_large(service: Service) -> None:
    process = service.start("--max-rss", "150M")
    await service.working()
    await service.send("grow", count=2)

    assert 0 == await service.code(process)
    assert "recycled: it has" in service.said()


@pytest.mark.parametrize("words", [(), ("--processes", "2")])
async def test_memory_that_would_never_do_is_wrong_use(
    service: Service, words: tuple[str, ...]
) -> None:
    process = service.start("--max-rss", "10M", *words)

    assert 2 == await service.code(process)
    assert 1 == service.said().count("max_rss is 10485760 bytes, but the program needs")


async def test_a_program_that_cannot_be_loaded_ends_all_and_is_complained_about_once(
    service: Service,
) -> None:
    process = service.start("--processes", "3", target="nowhere:hive")

    assert 2 == await service.code(process)
    assert 1 == service.said().count("there is no module 'nowhere'")


async def test_a_store_that_is_not_set_up_ends_all(service: Service, pg: PgServer) -> None:
    service.url = pg.database()

    process = service.start("--processes", "2")

    assert 78 == await service.code(process)
    assert "bee db apply" in service.said()


async def test_queues_in_memory_are_not_for_several_processes(service: Service) -> None:
    process = service.start("--processes", "2", BEE_URL="memory://")

    assert 2 == await service.code(process)
    assert 1 == service.said().count("memory:// is the memory of one process")


async def test_alone_it_may_have_queues_in_memory_and_is_warned(service: Service) -> None:
    process = service.start(BEE_URL="memory://")
    await service.working()

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process)
    assert "memory://: here are only the jobs that this process sends to itself" in service.said()


async def test_stuck_handlers_ask_for_another_process(service: Service) -> None:
    stubborn = """
from shop import bee, hive, queue

queue.policy = bee.Policy(timeout=0.2)
"""
    (service.directory / "stubborn.py").write_text(stubborn)
    await service.send("ignore", count=1)

    process = service.start("--concurrency", "1", target="stubborn:hive", GRACE="1")

    assert 75 == await service.code(process)
