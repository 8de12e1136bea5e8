"""The heartbeat's thread: that it starts, that it ends, that nobody does without it unknowingly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import pytest

import bee_core as bee
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, nothing, until

FOREVER = bee.Policy(timeout=None)


def heartbeats() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "bee:heartbeat" in thread.name]


async def test_every_worker_has_one_thread_for_its_heartbeat_from_the_start(
    bee_clock: ManualClock,
) -> None:
    hive = bee.Hive(clock=bee_clock, broker=MemoryBroker(clock=bee_clock))
    for name in ("one", "two"):
        hive.queue(name, Work).handler(nothing)
    async with hive.working():
        await until(lambda: len(heartbeats()) == 2)

        names = sorted(thread.name for thread in heartbeats())
        assert ["bee:heartbeat:one", "bee:heartbeat:two"] == names
        assert [True, True] == [thread.daemon for thread in heartbeats()]


async def test_the_heartbeat_has_a_broker_of_its_own_and_closes_it(bee_clock: ManualClock) -> None:
    clones: list[MemoryBroker] = []

    class Cloned(MemoryBroker):
        def clone(self) -> MemoryBroker:
            twin = super().clone()
            clones.append(twin)
            return twin

    broker = Cloned(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
    await worker.queue.send(Work())
    await worker.run(max_jobs=1)

    (clone,) = clones
    with pytest.raises(bee.BrokerClosed):
        await clone.stats("jobs")
    assert 0 == (await broker.stats("jobs")).live


async def test_when_a_worker_has_ended_its_heartbeats_thread_has_ended_too() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    busy = threading.Thread(target=spin, daemon=True)  # others end late beside it
    busy.start()
    try:
        for _ in range(30):
            await bee.Worker(MemoryBroker(), "jobs", Work, nothing).run(until_empty=True)
            assert [] == heartbeats()
    finally:
        stop.set()
        busy.join()


async def test_all_leases_that_are_due_are_renewed_in_one_call(bee_clock: ManualClock) -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    async with at_work(handle, clock=bee_clock, policy=FOREVER, concurrency=20) as (bees, jobs):
        await jobs.send_many([Work() for _ in range(20)])
        await bees.advance(3 * LEASE)
        go_on.set()
        await bees.drain()

        assert 20 == len(bees.runs)
        assert 7 <= bees.broker.calls["extend"] <= 10


async def test_a_job_begun_at_any_moment_is_renewed_in_time(bee_clock: ManualClock) -> None:
    """Jobs begun one after the other, so that the heartbeat's rounds never fit all of them."""
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    async with at_work(handle, clock=bee_clock, policy=FOREVER, concurrency=40) as (bees, jobs):
        for number in range(40):
            await jobs.send(Work(), id=str(number))
            await bees.advance(LEASE / 17)
        await bees.advance(5 * LEASE)
        go_on.set()
        await bees.drain()

        assert 40 == len(bees.runs)


async def test_a_long_job_that_follows_upon_short_ones_is_renewed_in_time(
    bee_clock: ManualClock,
) -> None:
    """While jobs come and go the heartbeat is awake, and nobody tells it of the next one."""
    go_on = asyncio.Event()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if delivery.id.startswith("long"):
            await go_on.wait()

    async with at_work(handle, clock=bee_clock, policy=FOREVER, concurrency=40) as (bees, jobs):
        for number in range(40):
            await jobs.send(Work(), id=f"short-{number}")
            await bees.advance(LEASE / 97)
            await jobs.send(Work(), id=f"long-{number}")
            await bees.advance(LEASE / 13)
        await bees.advance(5 * LEASE)
        go_on.set()
        await bees.drain()

        assert 80 == len(bees.runs)


def rings(worker: bee.Worker[Work]) -> list[None]:
    """One for each time that its heartbeat is woken from now on."""
    rung: list[None] = []
    genuine = worker._heartbeat._alarm.ring
    worker._heartbeat._alarm.ring = lambda: (rung.append(None), genuine())  # type: ignore[method-assign, func-returns-value, assignment]
    return rung


async def test_a_look_in_vain_does_not_wake_the_heartbeat() -> None:
    looks: list[None] = []

    class Counted(MemoryBroker):
        async def wait(self, queue: str, *, timeout: float) -> None:
            looks.append(None)
            await super().wait(queue, timeout=0.001)

    worker = bee.Worker(Counted(), "jobs", Work, nothing, observers=())
    rung = rings(worker)
    async with worker.working():
        await until(lambda: len(looks) > 20)

    assert [] == rung


async def test_the_heartbeat_is_not_woken_for_each_of_many_short_jobs() -> None:
    broker = MemoryBroker()
    async with broker, bee.Worker(broker, "jobs", Work, nothing, observers=()).working() as worker:
        rung = rings(worker)
        for number in range(50):
            await worker.queue.send(Work(), id=str(number))
            await until(lambda number=number: worker._held.settled > number)

    assert len(rung) <= 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_worker_without_a_heartbeat_does_not_start(bee_clock: ManualClock) -> None:
    class Single(MemoryBroker):
        def clone(self) -> MemoryBroker:
            raise OSError("too many open files")

    runs: list[Work] = []

    async def handle(job: Work) -> None:
        runs.append(job)

    broker = Single(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=())
    await worker.queue.send(Work())
    with suppress(OSError, bee.BeeError):
        await worker.run(max_jobs=1)

    assert [] == runs


async def test_a_worker_whose_heartbeat_gets_no_thread_does_not_start(
    bee_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if "bee:heartbeat" in self.name:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
    run = asyncio.create_task(worker.run(max_jobs=1))
    await asyncio.wait({run}, timeout=0.3)
    ended = run.done()
    if worker._heartbeat._ended is not None and not worker._heartbeat._ended.done():
        worker._heartbeat._ended.set_result(None)
    (outcome,) = await asyncio.gather(run, return_exceptions=True)

    assert ended
    assert isinstance(outcome, RuntimeError)


async def test_a_heartbeat_that_fails_is_missed(bee_clock: ManualClock) -> None:
    class Odd(MemoryBroker):
        answers = 0

        async def extend(
            self, queue: str, receipts: Sequence[bee.Receipt], **options: Any
        ) -> AbstractSet[bee.Receipt]:
            Odd.answers += 1
            lost = await super().extend(queue, receipts, **options)
            return None if Odd.answers == 1 else lost  # type: ignore[return-value]

    runs: list[str] = []

    async def handle(job: Work) -> None:
        runs.append(job.what)
        await bee_clock.sleep(3 * LEASE)

    worker = bee.Worker(
        Odd(clock=bee_clock), "jobs", Work, handle, clock=bee_clock, observers=(), policy=FOREVER
    )
    await worker.queue.send(Work("x"))
    run = asyncio.create_task(worker.run())
    await until(lambda: runs)
    await bee_clock.advance(2 * LEASE)
    ended = run.done()
    worker.kill()
    await asyncio.gather(run, return_exceptions=True)

    assert ended or runs == ["x"]


async def test_an_extend_that_never_answers_does_not_hold_up_the_end() -> None:
    answer, asked = threading.Event(), threading.Event()

    class Silent(MemoryBroker):
        async def extend(
            self, queue: str, receipts: Sequence[bee.Receipt], **options: Any
        ) -> AbstractSet[bee.Receipt]:
            asked.set()
            await until(answer.is_set)
            return set()

    async def handle(job: Work) -> None:
        await asyncio.Event().wait()

    worker = bee.Worker(Silent(), "jobs", Work, handle, lease=0.06, cancel_grace=0.01, observers=())
    await worker.queue.send(Work())
    run = asyncio.create_task(worker.run())
    await until(asked.is_set)
    worker.stop(grace=0)
    await asyncio.wait({run}, timeout=0.4)
    ended = run.done()
    answer.set()
    await run

    assert ended


async def test_a_broker_that_fails_to_close_does_not_keep_the_worker(
    bee_clock: ManualClock,
) -> None:
    class Sticky(MemoryBroker):
        async def aclose(self) -> None:
            await super().aclose()
            if threading.current_thread() is not threading.main_thread():
                raise bee.BrokerUnavailable("gone already")

    complaints: list[object] = []
    hook, threading.excepthook = threading.excepthook, complaints.append
    try:
        broker = Sticky(clock=bee_clock)
        worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
        await worker.queue.send(Work())
        await asyncio.wait_for(worker.run(max_jobs=1), 5)
        await until(lambda: not heartbeats())
    finally:
        threading.excepthook = hook

    assert [] == complaints


async def test_the_heartbeat_of_a_worker_whose_loop_is_gone_ends() -> None:
    """The program closes the loop under a running worker, as a crash of its main task does."""

    async def start() -> None:
        async def handle(job: Work) -> None:
            await asyncio.Event().wait()

        worker = bee.Worker(
            FaultyBroker(MemoryBroker()), "jobs", Work, handle, lease=0.06, observers=()
        )
        await worker.queue.send(Work())
        asyncio.create_task(worker.run())  # noqa: RUF006
        await until(lambda: heartbeats())
        await asyncio.sleep(0.02)

    def program() -> None:
        asyncio.run(start())

    thread = threading.Thread(target=program)
    thread.start()
    await until(lambda: not thread.is_alive())
    await until(lambda: not heartbeats())
