"""How many jobs run at once, in what order they begin, and that a full pool goes on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bee_core as bee
from bee_core.testing import ManualClock

from .support import Work, at_work, nothing, settled


class Counting:
    """Takes as long as its job says; counts how many run at once."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.now = self.most = self.done = 0

    async def __call__(self, job: Work) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._clock.sleep(job.number / 10)
            if job.what == "fail":
                raise ValueError("no")
        finally:
            self.now -= 1
        self.done += 1


@pytest.mark.parametrize("concurrency", [1, 2, 7, 100])
async def test_as_many_jobs_run_at_once_as_there_are_slots_and_no_more(
    concurrency: int, bee_clock: ManualClock
) -> None:
    handler = Counting(bee_clock)
    async with at_work(handler, clock=bee_clock, concurrency=concurrency) as (bees, jobs):
        await jobs.send_many([Work(number=10) for _ in range(120)])
        await bees.advance(130)

    assert (concurrency, 120) == (handler.most, handler.done)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    concurrency=st.integers(1, 6),
    lengths=st.lists(st.integers(0, 40), max_size=30),
    failing=st.sets(st.integers(0, 29)),
    arrivals=st.integers(0, 5),
)
def test_the_number_of_slots_is_never_exceeded_and_every_job_ends(
    concurrency: int, lengths: list[int], failing: set[int], arrivals: int
) -> None:
    async def program() -> None:
        clock = ManualClock()
        handler = Counting(clock)
        policy = bee.Policy(timeout=2, on_timeout=bee.Archive(), on_error=bee.Repeat(1))
        async with at_work(handler, clock=clock, concurrency=concurrency, policy=policy) as (
            bees,
            jobs,
        ):
            for number, length in enumerate(lengths):
                what = "fail" if number in failing else ""
                await jobs.send(Work(what, length), id=str(number))
                await bees.advance(arrivals / 10)
            await bees.advance(500)

            assert handler.most <= concurrency
            assert 0 == handler.now
            ended = [id for id, _, how in settled(bees).elements() if how != "Reschedule"]
            assert Counter(str(number) for number in range(len(lengths))) == Counter(ended)

    asyncio.run(program())


async def test_a_full_pool_goes_on_when_a_slot_is_free_again(bee_clock: ManualClock) -> None:
    handler = Counting(bee_clock)
    async with at_work(handler, clock=bee_clock, concurrency=1) as (bees, jobs):
        await jobs.send_many([Work(number=1) for _ in range(50)])
        await bees.advance(5.05)

        assert (1, 50) == (handler.most, handler.done)


async def test_no_more_is_leased_than_can_be_started(bee_clock: ManualClock) -> None:
    handler = Counting(bee_clock)
    async with at_work(handler, clock=bee_clock, concurrency=3) as (bees, jobs):
        await jobs.send_many([Work(number=100) for _ in range(50)])
        await bees.clock.settle()

        stats = await bees.broker.inner.stats("jobs")
        assert (47, 3) == (stats.ready, stats.leased)


async def test_a_hanging_job_does_not_keep_the_others_from_ending(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        if job.what == "hang":
            await asyncio.Event().wait()

    policy = bee.Policy(timeout=0.5, on_timeout=bee.Archive())
    async with at_work(handle, clock=bee_clock, policy=policy, concurrency=3) as (bees, jobs):
        await jobs.send(Work("hang"), id="hang")
        await jobs.send_many([Work() for _ in range(20)])
        await bees.advance(1)

        assert 20 == sum(outcome == "Succeeded" for _, outcome, _ in settled(bees).elements())
        assert 1 == settled(bees)["hang", "TimedOut", "Archive"]


async def test_a_timeout_counts_from_when_all_of_its_batch_have_been_decoded(
    bee_clock: ManualClock,
) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(0.2)

    policy = bee.Policy(timeout=0.5, on_timeout=bee.Archive())
    async with at_work(handle, clock=bee_clock, policy=policy, concurrency=3) as (bees, jobs):
        decode = jobs.codec.decode

        def decode_slowly(body: bytes) -> Work:
            bee_clock.block(1.0)
            return decode(body)

        jobs.codec.decode = decode_slowly  # type: ignore[method-assign]
        await jobs.send_many([Work() for _ in range(3)])
        await bees.advance(5)

        assert 3 == sum(outcome == "Succeeded" for _, outcome, _ in settled(bees).elements())


async def test_one_slot_runs_jobs_first_in_first_out_by_priority() -> None:
    async with at_work(nothing, concurrency=1) as (bees, jobs):
        await bees.broker.pause("jobs")
        expected: list[tuple[int, int, str]] = []
        for priority in (0, 5, -5, 9):
            for number in range(5):
                id = f"{priority}-{number}"
                expected.append((-priority, len(expected), id))
                await jobs.send(Work(), id=id, priority=priority)
        await bees.broker.resume("jobs")
        await bees.drain()

        assert [id for _, _, id in sorted(expected)] == bees.runs


async def test_a_hundred_rounds_of_everything_leave_every_slot_free(
    bee_clock: ManualClock,
) -> None:
    """Successes, failures, timeouts and cancellations, mixed: no slot is lost on the way."""
    chance = random.Random(7)

    async def handle(job: Work) -> object:
        match job.what:
            case "fail":
                raise ValueError("no")
            case "hang":
                await asyncio.Event().wait()
            case "swallow":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return None
            case "snooze":
                raise bee.Snooze(1)
            case _:
                pass
        return None

    policy = bee.Policy(timeout=1, on_timeout=bee.Archive(), on_error=bee.Repeat(1))
    async with at_work(handle, clock=bee_clock, policy=policy, concurrency=4) as (bees, jobs):
        for number in range(100):
            what = chance.choice(["", "fail", "hang", "swallow", "snooze"])
            await jobs.send(Work(what), id=str(number))
            await bees.advance(chance.random() / 2)
            if chance.random() < 0.2:
                await jobs.cancel(str(number), to=bee.Delete())
        await jobs.cancel(*(str(number) for number in range(100)))
        await bees.advance(100)

        (worker,) = bees.hive._workers
        assert (0, 0, 0) == (len(worker._slots.running), worker._slots.stuck, len(worker._held))
