"""Concurrency that follows the load, in a worker and over the queues of a hive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import ConcurrencyChanged, HandlerStuck
from bee_core.testing import HiveUnderTest, ManualClock
from bee_memory import MemoryBroker

from .support import Work, heard, under_test


class Dial:
    """A meter that the test turns."""

    def __init__(self, cpu: float = 0.1, lag: float = 0.0) -> None:
        self.cpu, self.lag = cpu, lag

    def read(self) -> bee.Reading:
        return bee.Reading(self.cpu, self.lag)


class Waiting:
    """Handlers that take a minute of the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.now = self.most = 0

    async def __call__(self, job: Work) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._clock.sleep(60)
        finally:
            self.now -= 1


def auto(dial: Dial, **options: Any) -> bee.Auto:
    return bee.Auto(**{"min": 1, "max": 50, "every": 1.0, "meter": dial} | options)


def hive_with(
    handler: Callable[..., object], concurrency: bee.Auto
) -> tuple[bee.Hive, bee.HiveQueue[Work]]:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, concurrency=concurrency)
    jobs.handlers.handle_all(handler)
    return hive, jobs


def sizes(bees: HiveUnderTest) -> list[int]:
    return [event.size for event in heard(bees, ConcurrencyChanged)]


async def send(jobs: bee.HiveQueue[Work], number: int) -> None:
    await jobs.send_many([Work() for _ in range(number)])


async def test_it_rises_while_jobs_wait_up_to_its_bound(bee_clock: ManualClock) -> None:
    handler = Waiting(bee_clock)
    hive, jobs = hive_with(handler, auto(Dial()))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 200)
        await bees.advance(20)

        assert [2, 4, 8, 16, 32, 50] == sizes(bees)
        assert 50 == handler.now


async def test_it_begins_where_it_was_told_to(bee_clock: ManualClock) -> None:
    handler = Waiting(bee_clock)
    hive, jobs = hive_with(handler, auto(Dial(), start=7))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 200)
        await bees.clock.settle()

        assert 7 == handler.now


async def test_it_stays_where_it_is_when_nothing_waits(bee_clock: ManualClock) -> None:
    handler = Waiting(bee_clock)
    hive, jobs = hive_with(handler, auto(Dial(), start=4))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 3)
        await bees.advance(50)

        assert [] == sizes(bees)


async def test_it_falls_when_the_loop_is_late_and_stops_nothing(bee_clock: ManualClock) -> None:
    handler, dial = Waiting(bee_clock), Dial()
    hive, jobs = hive_with(handler, auto(dial, start=40))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 200)
        await bees.advance(0.5)
        dial.lag = 0.5
        await bees.advance(4)
        assert ([30, 22], 40) == (sizes(bees), handler.now)

        dial.lag, dial.cpu = 0.0, 1.0
        await bees.advance(60)
        assert 22 == handler.now


async def test_it_says_what_it_has_read(bee_clock: ManualClock) -> None:
    hive, jobs = hive_with(Waiting(bee_clock), auto(Dial(0.25, 0.01)))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 10)
        await bees.advance(1)

        assert [ConcurrencyChanged("jobs", 2, 0.25, 0.01)] == heard(bees, ConcurrencyChanged)


async def test_every_queue_of_a_hive_may_have_it(bee_clock: ManualClock) -> None:
    handler = Waiting(bee_clock)
    hive = bee.Hive("memory://", concurrency=auto(Dial(), max=4))
    queues = [hive.queue(name, Work) for name in ("one", "two")]
    for queue in queues:
        queue.handlers.handle_all(handler)
    async with under_test(hive, clock=bee_clock) as bees:
        for queue in queues:
            await send(queue, 20)
        await bees.advance(10)

        assert 8 == handler.now


async def test_a_worker_by_hand_may_have_it(bee_clock: ManualClock) -> None:
    handler, broker = Waiting(bee_clock), MemoryBroker(clock=bee_clock)
    worker = bee.Worker(
        broker, "jobs", Work, handler, concurrency=auto(Dial(), max=4), clock=bee_clock, poll=1e6
    )
    await worker.queue.send_many([Work() for _ in range(10)])
    async with worker.working():
        await worker.started()
        await bee_clock.advance(10)
        assert 4 == handler.now
        worker.kill()


async def test_a_capacity_follows_the_load(bee_clock: ManualClock) -> None:
    handler, dial = Waiting(bee_clock), Dial()
    hive = bee.Hive("memory://", capacity=auto(dial), concurrency=100)
    queues = [hive.queue(name, Work) for name in ("one", "two")]
    for queue in queues:
        queue.handlers.handle_all(handler)
    async with under_test(hive, clock=bee_clock) as bees:
        for queue in queues:
            await send(queue, 100)
        await bees.advance(20)
        assert [2, 4, 8, 16, 32, 50] == sizes(bees)
        assert {"*"} == {event.queue for event in heard(bees, ConcurrencyChanged)}
        assert 50 == handler.now

        dial.cpu = 3.0
        await bees.advance(2)
        assert 37 == sizes(bees)[-1]


async def test_a_capacity_never_falls_below_what_was_promised(bee_clock: ManualClock) -> None:
    handler, dial = Waiting(bee_clock), Dial(lag=1.0)
    hive = bee.Hive("memory://", capacity=auto(dial, start=20), concurrency=100)
    one, two = hive.queue("one", Work, share=3, size=2), hive.queue("two", Work, size=4)
    for queue in (one, two):
        queue.handlers.handle_all(handler)
    async with under_test(hive, clock=bee_clock) as bees:
        await send(two, 100)
        await bees.advance(600)

        assert 10 == sizes(bees)[-1]


async def test_a_capacity_begins_with_what_was_promised(bee_clock: ManualClock) -> None:
    handler = Waiting(bee_clock)
    hive = bee.Hive("memory://", capacity=auto(Dial(cpu=1.0)))
    jobs = hive.queue("jobs", Work, share=3)
    jobs.handlers.handle_all(handler)
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 10)
        await bees.clock.settle()

        assert 3 == handler.now


async def test_a_meter_that_fails_is_logged_once_and_changes_nothing(
    bee_clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def read(self) -> bee.Reading:
            raise OSError("no such dial")

    handler = Waiting(bee_clock)
    hive, jobs = hive_with(handler, bee.Auto(every=1.0, start=3, meter=Broken()))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 10)
        await bees.advance(10)

        assert 3 == handler.now
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "meter" in record.getMessage()


@pytest.mark.parametrize("cpu", [None, "much", float("nan"), float("inf")])
async def test_a_meter_that_reads_no_numbers_is_logged_once_and_changes_nothing(
    bee_clock: ManualClock, caplog: pytest.LogCaptureFixture, cpu: Any
) -> None:
    handler = Waiting(bee_clock)
    hive, jobs = hive_with(handler, auto(Dial(cpu), start=3))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 10)
        await bees.advance(10)

        assert 3 == handler.now
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "meter" in record.getMessage()


@pytest.mark.parametrize("fails", [True, False])
async def test_a_meter_whose_sampling_ends_is_read_all_the_same(
    bee_clock: ManualClock, fails: bool
) -> None:
    class Sampling(Dial):
        times = 0

        async def run(self) -> None:
            self.times += 1
            if fails:
                raise OSError("no such dial")

    meter, handler = Sampling(), Waiting(bee_clock)
    hive, jobs = hive_with(handler, auto(meter))
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 10)
        await bees.advance(10)

        assert 10 == handler.now
        assert 1 == meter.times


async def test_stuck_handlers_are_too_many_only_when_they_are_as_many_as_could_ever_run(
    bee_clock: ManualClock,
) -> None:
    let_go = asyncio.Event()

    async def deaf(job: Work) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    hive = bee.Hive("memory://")
    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    jobs = hive.queue("jobs", Work, policy=policy, concurrency=auto(Dial(cpu=1.0), max=3))
    jobs.handler(deaf)
    async with under_test(hive, clock=bee_clock) as bees:
        await send(jobs, 2)
        await bees.advance(50)

        assert 2 == len(heard(bees, HandlerStuck))
        assert not hive.stopping
        let_go.set()


async def test_the_meter_of_its_own_takes_samples_while_the_worker_runs() -> None:
    seen: set[str] = set()

    async def handle(job: Work) -> None:
        seen.update(task.get_name() for task in asyncio.all_tasks())

    hive, jobs = hive_with(handle, bee.Auto(every=0.01))
    async with hive:
        await send(jobs, 3)
        await hive.run(until_empty=True)

    assert {"bee:auto", "bee:meter"} <= seen
