"""A worker that cannot renew its leases stops its handlers in time, and settles nothing."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import AttemptLost, BrokerRecovered, BrokerTrouble
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, counted, heard, settled, until

FOREVER = bee.Policy(timeout=None, on_stall=bee.Repeat(None))


class Handler:
    """Runs until it is told to end; knows when each run began and ended."""

    def __init__(self, clock: ManualClock) -> None:
        self.go_on = asyncio.Event()
        self.running = 0
        self.most = 0
        self.cancelled_at: list[float] = []
        self._clock = clock

    async def __call__(self, job: Work) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled_at.append(self._clock.now())
            raise
        finally:
            self.running -= 1


async def test_a_broker_that_is_away_for_less_than_a_lease_is_not_noticed_by_handlers(
    bee_clock: ManualClock,
) -> None:
    handler = Handler(bee_clock)
    async with at_work(handler, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        for _ in range(5):
            bees.broker.go_down(bee.BrokerUnavailable("away"))
            await bees.advance(LEASE / 2)
            bees.broker.come_back()
            await bees.advance(LEASE / 2)

        assert (1, []) == (handler.running, handler.cancelled_at)

        handler.go_on.set()
        await bees.drain()

        assert ["a"] == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_broker_that_is_away_for_longer_than_a_lease_stops_the_handlers(
    bee_clock: ManualClock,
) -> None:
    handler = Handler(bee_clock)
    start = bee_clock.now()
    async with at_work(handler, policy=FOREVER, clock=bee_clock, concurrency=2) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await jobs.send(Work(), id="b")
        await bees.clock.settle()
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        await bees.advance(LEASE * 2)

        assert 2 == len(handler.cancelled_at)
        assert max(handler.cancelled_at) <= start + LEASE + 1
        assert Counter("ab") == Counter(event.id for event in heard(bees, AttemptLost))
        assert 0 == bees.broker.calls["settle"]


async def test_fenced_jobs_run_again_when_the_broker_is_back(bee_clock: ManualClock) -> None:
    handler = Handler(bee_clock)
    async with at_work(handler, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        await bees.advance(LEASE * 2)
        bees.broker.come_back()
        await bees.advance(LEASE)
        handler.go_on.set()
        await bees.drain()

        assert ["a", "a"] == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)
        assert 1 == len(heard(bees, AttemptLost))


async def test_trouble_with_renewing_is_told_once_and_so_is_its_end(
    bee_clock: ManualClock,
) -> None:
    handler = Handler(bee_clock)
    async with at_work(handler, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        for _ in range(2):
            bees.broker.fail("extend", bee.BrokerUnavailable("away"), times=5)
            await bees.advance(LEASE)
        handler.go_on.set()
        await bees.drain()

        assert ["extend"] * 2 == [event.verb for event in heard(bees, BrokerTrouble)]
        assert ["extend"] * 2 == [event.verb for event in heard(bees, BrokerRecovered)]
        assert ["a"] == bees.runs


@pytest.mark.parametrize(
    "error",
    [
        bee.BrokerUnavailable("away"),
        bee.OutcomeUnknown("lost"),
        bee.BrokerFull("full"),
        OSError("broken pipe"),
        RuntimeError("a bug of a driver"),
        TimeoutError(),
    ],
)
async def test_whatever_renewing_raises_the_heartbeat_goes_on(
    error: Exception, bee_clock: ManualClock
) -> None:
    handler = Handler(bee_clock)
    async with at_work(handler, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.broker.fail("extend", error, times=3, when="after")
        await bees.advance(5 * LEASE)
        handler.go_on.set()
        await bees.drain()

        assert ["a"] == bees.runs
        assert Counter(
            {"AttemptStarted": 1, "AttemptSettled": 1, "BrokerTrouble": 1, "BrokerRecovered": 1}
        ) == counted(bees)


async def test_a_cancellation_that_leaks_from_the_driver_does_not_end_the_heartbeat(
    bee_clock: ManualClock,
) -> None:
    class Leaky(MemoryBroker):
        extends = 0

        async def extend(
            self, queue: str, receipts: Sequence[bee.Receipt], **options: Any
        ) -> AbstractSet[bee.Receipt]:
            Leaky.extends += 1
            if Leaky.extends == 1:
                raise asyncio.CancelledError
            return await super().extend(queue, receipts, **options)

    handler = Handler(bee_clock)
    worker = bee.Worker(
        Leaky(clock=bee_clock), "jobs", Work, handler, clock=bee_clock, policy=FOREVER, poll=1e6
    )
    await worker.queue.send(Work(), id="a")
    async with worker.working():
        await until(lambda: handler.running)
        await bee_clock.advance(3 * LEASE)
        extends = Leaky.extends
        handler.go_on.set()

    assert extends > 1
    assert (1, []) == (handler.most, handler.cancelled_at)


@pytest.mark.parametrize("lease", [5.0, 10.0, 30.0])
async def test_a_job_whose_lease_cannot_be_renewed_is_stopped_before_anybody_can_take_it(
    lease: float, bee_clock: ManualClock
) -> None:
    handler = Handler(bee_clock)
    async with at_work(handler, policy=FOREVER, clock=bee_clock, lease=lease) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.broker.fail("extend", bee.BrokerUnavailable("away"), times=1000)
        await bees.advance(2 * lease)

        assert ["a", "a"] == bees.runs[:2]
        assert 1 == handler.most


async def test_an_extend_that_never_answers_does_not_keep_a_handler_beyond_its_lease() -> None:
    answer = threading.Event()

    class Silent(MemoryBroker):
        async def extend(
            self, queue: str, receipts: Sequence[bee.Receipt], **options: Any
        ) -> AbstractSet[bee.Receipt]:
            await until(answer.is_set)
            raise bee.BrokerUnavailable("no answer")

    cancelled = asyncio.Event()

    async def handle(job: Work) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    worker = bee.Worker(Silent(), "jobs", Work, handle, policy=FOREVER, lease=0.1, concurrency=1)
    await worker.queue.send(Work(), id="a")
    async with worker.working():
        with suppress(AssertionError):
            await until(cancelled.is_set, patience=0.5)
        stopped = cancelled.is_set()
        answer.set()
        worker.stop(grace=0)

    assert stopped


def slow(clock: ManualClock, pauses: list[float], extends: int = 0) -> MemoryBroker:
    """It answers each lease after a pause, if one is left, and so many extends, then no more."""
    answered = []

    class Slow(MemoryBroker):
        async def lease(self, queue: str, **options: Any) -> Sequence[bee.Lease]:
            leases = await super().lease(queue, **options)
            if leases and pauses:
                await clock.sleep(pauses.pop(0))
            return leases

        async def extend(
            self, queue: str, receipts: Sequence[bee.Receipt], **options: Any
        ) -> AbstractSet[bee.Receipt]:
            answered.append(receipts)
            if len(answered) > extends:
                await clock.sleep(1e9)
            return await super().extend(queue, receipts, **options)

    return Slow(clock=clock)


async def test_a_lease_whose_answer_comes_late_is_given_back_and_not_run(
    bee_clock: ManualClock,
) -> None:
    handler = Handler(bee_clock)
    broker = slow(bee_clock, pauses := [0.7 * LEASE])
    worker = bee.Worker(broker, "jobs", Work, handler, clock=bee_clock, policy=FOREVER, lease=LEASE)
    await worker.queue.send(Work(), id="a")
    async with worker.working():
        await until(lambda: not pauses)
        await bee_clock.advance(0.69 * LEASE)
        assert 0 == handler.most
        await bee_clock.advance(0.02 * LEASE)
        await until(lambda: handler.running)

        stored = await broker.get("jobs", "a")
        assert stored is not None
        assert (1, 0) == (stored.counters.releases, stored.counters.stalls)
        handler.go_on.set()


async def test_a_job_that_is_leased_while_an_extend_hangs_is_stopped_before_its_lease_ends(
    bee_clock: ManualClock,
) -> None:
    """It was asked for before the others were renewed the last time, so its lease ends first."""
    handler = Handler(bee_clock)
    broker = slow(bee_clock, pauses := [0.0, 0.63 * LEASE], extends=1)
    worker = bee.Worker(broker, "jobs", Work, handler, clock=bee_clock, policy=FOREVER, lease=LEASE)
    await worker.queue.send(Work(), id="a")
    async with worker.working():
        await until(lambda: handler.running == 1)
        await bee_clock.advance(0.05 * LEASE)
        began = bee_clock.now()
        await worker.queue.send(Work(), id="b")
        await until(lambda: not pauses)
        await bee_clock.advance(0.64 * LEASE)
        assert 2 == handler.running
        await bee_clock.advance(LEASE)
        await until(lambda: len(handler.cancelled_at) >= 2)

        assert handler.cancelled_at[0] - began <= LEASE
        handler.go_on.set()
