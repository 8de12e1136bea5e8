"""SIGTERM and SIGINT: the first stops, the second hurries, the third ends it."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest

import bee_core as bee

from .support import Service


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_lets_running_jobs_end(
    service: Service, number: signal.Signals
) -> None:
    process = service.start()
    await service.send("sleep", 1.0)
    await service.begun()

    process.send_signal(number)

    assert 0 == await service.code(process)
    assert 1 == len(service.journal("ends"))
    assert 0 == (await service.stats()).live


async def test_jobs_that_outlive_the_grace_go_back_to_the_front_at_no_cost(
    service: Service,
) -> None:
    process = service.start("--grace", "500ms")
    first, *rest = await service.send("sleep", 60, count=8)
    await service.begun(4)

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process)
    stored = await service.stored(first)
    assert bee.State.READY == stored.state
    assert bee.Counters(deliveries=1, releases=1) == stored.counters
    async with bee.connect(service.url) as broker:
        leases = await broker.lease(service.queue, limit=8, duration=5, holder="me")
    assert [first, *rest] == [lease.receipt.id for lease in leases]


async def test_the_second_signal_does_not_wait_for_the_grace(service: Service) -> None:
    process = service.start("--grace", "1h")
    (id,) = await service.send("sleep", 3600)
    await service.begun()

    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    process.send_signal(signal.SIGINT)

    assert 0 == await service.code(process, within=5)
    assert 1 == (await service.stored(id)).counters.releases
    assert "stopping: 1 job runs, for 3600 s at most; a second signal interrupts" in service.said()
    assert "stopping: 1 job runs, and no longer" in service.said()
    assert f"id={id}" in next(line for line in service.said().splitlines() if "interrupted" in line)


async def test_the_third_signal_ends_it_there_and_then(service: Service) -> None:
    process = service.start(GRACE="3600", CANCEL_GRACE="3600")
    (id,) = await service.send("block in C")
    await service.begun()

    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)

    assert 130 == await service.code(process, within=3)
    assert bee.State.LEASED == (await service.stored(id)).state


@pytest.mark.parametrize("how", ["block", "block in C"])
async def test_a_blocked_loop_does_not_outlive_the_grace_by_much(
    service: Service, how: str
) -> None:
    process = service.start("--grace", "500ms")
    await service.send(how, 3600)
    await service.begun()

    process.send_signal(signal.SIGTERM)

    assert 1 == await service.code(process, within=5)
    assert "did not in time" in service.said()


async def test_not_even_who_keeps_the_global_lock_outlives_it_by_more(service: Service) -> None:
    process = service.start("--grace", "100ms")
    await service.send("block with the global lock")
    await service.begun()

    process.send_signal(signal.SIGTERM)

    assert 1 == await service.code(process, within=15)
    assert "Timeout (" in service.said()
    assert "shop.py" in service.said()


async def test_handlers_that_ignore_everything_do_not_keep_the_process(service: Service) -> None:
    process = service.start("--grace", "200ms")
    (id,) = await service.send("ignore")
    await service.begun()

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process, within=8)
    assert 1 == (await service.stored(id)).counters.releases


async def test_a_signal_while_the_program_is_loaded_ends_it(service: Service) -> None:
    slow = "from pathlib import Path\nPath('loading').touch()\nimport time\ntime.sleep(3600)\n"
    (service.directory / "slow.py").write_text(slow)
    process = service.start(target="slow")
    await service.until((service.directory / "loading").exists)

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process, within=2)


async def test_a_signal_without_a_broker_ends_it_soon(service: Service) -> None:
    process = service.start("--url", "redis://127.0.0.1:1")
    await service.until(lambda: "broker trouble" in service.said())

    process.send_signal(signal.SIGTERM)

    assert 0 == await service.code(process, within=2)


async def test_a_signal_ends_it_soon_if_the_broker_is_silent(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = service.start("--url", f"redis://127.0.0.1:{silent.getsockname()[1]}")
        await service.working()
        process.send_signal(signal.SIGTERM)

        assert 0 == await service.code(process, within=2.5)


async def test_a_fork_of_a_handler_has_signals_of_its_own(service: Service) -> None:
    forking = """
import multiprocessing, time
import bee_core as bee
from shop import Work, hive, queue, note

queue.handlers.__init__(queue)

@queue.handler
def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    child.start()
    child.terminate()
    child.join()
    note(f"child-{child.exitcode}", delivery.id)
"""
    (service.directory / "forking.py").write_text(forking)
    process = service.start(target="forking:hive")
    await service.send()
    await service.until(lambda: service.journal("child--15"))
    await service.send()
    await service.until(lambda: len(service.journal("child--15")) == 2)

    assert process.poll() is None
    assert "worker stopped" not in service.said()
