"""Handlers that ignore their cancellation: told twice, then given up; their slot is used again."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, HandlerStuck, WorkerStopped
from bee_core.testing import ManualClock

from .support import STEADY, Work, at_work, counted, heard, hive_for, live, settled, until

POLICY = bee.Policy(timeout=10, on_timeout=bee.Archive())
GRACE = 5.0


class Deaf:
    """Swallows its cancellation `times` times (None: for ever), then ends, or ends when let go."""

    def __init__(self, clock: ManualClock, times: int | None = None) -> None:
        self.let_go = asyncio.Event()
        self.told: list[float] = []
        self._clock = clock
        self._start = clock.now()
        self._times = times

    async def __call__(self, job: Work) -> None:
        if job.what == "short":
            return
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told.append(self._clock.now() - self._start)
                if self._times is not None and len(self.told) > self._times:
                    raise


async def test_a_handler_that_swallows_its_cancellation_once_is_told_again(
    bee_clock: ManualClock,
) -> None:
    handler = Deaf(bee_clock, times=1)
    async with at_work(handler, policy=POLICY, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(100)

        assert [10, 10 + GRACE] == handler.told
        assert Counter({"AttemptStarted": 1, "AttemptSettled": 1}) == counted(bees)
        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)


async def test_a_handler_that_swallows_its_cancellation_for_ever_is_given_up(
    bee_clock: ManualClock,
) -> None:
    handler = Deaf(bee_clock)
    async with at_work(handler, policy=POLICY, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(10 + 2 * GRACE - 0.001)

        assert Counter({"AttemptStarted": 1}) == counted(bees)

        await bees.advance(0.001)

        expected = Counter({"AttemptStarted": 1, "HandlerStuck": 1, "AttemptSettled": 1})
        assert [10, 10 + GRACE] == handler.told
        assert expected == counted(bees)
        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)
        assert [("a", 1)] == [(event.id, event.stuck) for event in heard(bees, HandlerStuck)]

        handler.let_go.set()
        await bees.drain()

        assert expected == counted(bees)


async def test_what_a_stuck_handler_raises_or_returns_later_is_ignored(
    bee_clock: ManualClock,
) -> None:
    let_go = asyncio.Event()

    async def handle(job: Work) -> object:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        if job.what == "raise":
            raise ValueError("far too late")
        return bee.Delete()

    policy = bee.Policy(timeout=10, on_timeout=bee.Repeat(3, backoff=bee.Backoff(min=999, max=999)))
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work("raise"), id="a")
        await jobs.send(Work("return"), id="b")
        await bees.advance(10 + 2 * GRACE)
        let_go.set()
        await bees.drain()

        assert {("a", "TimedOut", "Reschedule"): 1, ("b", "TimedOut", "Reschedule"): 1} == settled(
            bees
        )
        assert 2 == await live(bees)


async def test_a_stuck_handler_does_not_hold_its_slot(bee_clock: ManualClock) -> None:
    handler = Deaf(bee_clock)
    async with at_work(handler, policy=POLICY, clock=bee_clock, concurrency=2) as (bees, jobs):
        await jobs.send(Work(), id="deaf")
        for number in range(20):
            await jobs.send(Work("short"), id=f"short-{number}")
        await bees.advance(100)

        assert 20 == sum(outcome == "Succeeded" for _, outcome, _ in settled(bees).elements())

        await jobs.send(Work("short"), id="last")
        await bees.drain()

        assert 1 == settled(bees)["last", "Succeeded", "Delete"]
        handler.let_go.set()


async def test_a_worker_with_as_many_stuck_handlers_as_slots_says_so_and_ends(
    bee_clock: ManualClock,
) -> None:
    handler = Deaf(bee_clock)
    hive, jobs = hive_for(handler, policy=POLICY, concurrency=2)
    with hive.substitute(bee.connect("memory://"), clock=bee_clock, poll=1e6):
        await jobs.send(Work())
        await jobs.send(Work())
        run = asyncio.create_task(hive.run())
        await until(lambda: len(asyncio.all_tasks()) > 5)
        while not run.done():
            await bee_clock.advance(1)
            await asyncio.wait({run}, timeout=0.001)

        with pytest.raises(bee.WorkerStuck, match="2 handlers"):
            await run
        handler.let_go.set()
        await hive.aclose()


async def test_handlers_that_come_back_after_all_are_no_longer_counted(
    bee_clock: ManualClock,
) -> None:
    """One slot's worth of stuck handlers at a time, again and again, does not end the worker."""
    gates: list[asyncio.Event] = []

    async def handle(job: Work) -> None:
        gate = asyncio.Event()
        gates.append(gate)
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    async with at_work(handle, policy=POLICY, clock=bee_clock, concurrency=2) as (bees, jobs):
        for _ in range(5):
            await jobs.send(Work())
            await bees.advance(10 + 2 * GRACE)
            gates[-1].set()
            await bees.clock.settle()

        assert [1] * 5 == [event.stuck for event in heard(bees, HandlerStuck)]
        await bees.stop()
        assert [0] == [event.stuck for event in heard(bees, WorkerStopped)]


async def test_a_stuck_job_that_is_repeated_runs_beside_its_own_ghost(
    bee_clock: ManualClock,
) -> None:
    handler = Deaf(bee_clock)
    policy = bee.Policy(timeout=10, on_timeout=bee.Repeat(1), backoff=STEADY)
    async with at_work(handler, policy=policy, clock=bee_clock, concurrency=5) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1000)

        assert ["a", "a"] == bees.runs
        assert [1, 2] == [event.stuck for event in heard(bees, HandlerStuck)]
        assert [10 + 2 * GRACE] * 2 == [e.duration for e in heard(bees, AttemptSettled)]
        handler.let_go.set()


async def test_without_any_grace_a_handler_that_obeys_is_not_called_stuck(
    bee_clock: ManualClock,
) -> None:
    async def obey(job: Work) -> None:
        await asyncio.Event().wait()

    async with at_work(obey, policy=POLICY, clock=bee_clock, concurrency=2, cancel_grace=0) as (
        bees,
        jobs,
    ):
        await jobs.send(Work(), id="a")
        await bees.advance(20)

        assert Counter({"AttemptStarted": 1, "AttemptSettled": 1}) == counted(bees)


async def test_cleaning_up_after_a_cancellation_may_take_the_whole_grace(
    bee_clock: ManualClock,
) -> None:
    cleaned: list[str] = []

    async def handle(job: Work) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await bee_clock.sleep(GRACE - 0.1)
            cleaned.append("up")

    async with at_work(handle, policy=POLICY, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(100)

        assert ["up"] == cleaned
        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)
        assert [10 + GRACE - 0.1] == pytest.approx(
            [event.duration for event in heard(bees, AttemptSettled)]
        )
