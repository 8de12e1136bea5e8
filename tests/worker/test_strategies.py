"""Every cell of strategy by outcome by count, end to end: how often it runs, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.testing import HiveUnderTest, ManualClock

from .support import LEASE, STEADY, Work, at_work, begin, heard, live, nothing, reasons, settled

TERMINAL = [bee.Delete(), bee.Archive()]
TIMES = [0, 1, 3]
LONG = 100_000.0

STRATEGIES: list[tuple[bee.ErrorStrategy, int, bool]] = [
    (bee.Delete(), 1, False),
    (bee.Archive(), 1, True),
    *((bee.Repeat(n), n + 1, True) for n in TIMES),
    *((bee.Repeat(n, otherwise=bee.Delete()), n + 1, False) for n in TIMES),
]
"""A strategy, the runs it allows, and whether the job is archived after them."""


async def fail(job: Work) -> None:
    raise ValueError("no")


async def hang(job: Work) -> None:
    await asyncio.Event().wait()


async def end_of(bees: HiveUnderTest) -> tuple[int, Counter[str]]:
    return await live(bees), await reasons(bees)


@pytest.mark.parametrize(("strategy", "runs", "kept"), STRATEGIES)
async def test_a_job_that_fails_runs_as_often_as_its_strategy_allows(
    strategy: bee.ErrorStrategy, runs: int, kept: bool
) -> None:
    async with at_work(fail, policy=bee.Policy(on_error=strategy)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        last = "Archive" if kept else "Delete"
        expected = Counter({("a", "Failed", last): 1, ("a", "Failed", "Reschedule"): runs - 1})
        assert ["a"] * runs == bees.runs
        assert +expected == settled(bees)
        assert (0, Counter({"failed": 1} if kept else {})) == await end_of(bees)


@pytest.mark.parametrize(("strategy", "runs", "kept"), STRATEGIES)
async def test_a_job_that_times_out_runs_as_often_as_its_strategy_allows(
    strategy: bee.TimeoutStrategy, runs: int, kept: bool
) -> None:
    policy = bee.Policy(timeout=10, on_timeout=strategy)
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        last = "Archive" if kept else "Delete"
        expected = Counter({("a", "TimedOut", last): 1, ("a", "TimedOut", "Reschedule"): runs - 1})
        assert ["a"] * runs == bees.runs
        assert +expected == settled(bees)
        assert (0, Counter({"timed_out": 1} if kept else {})) == await end_of(bees)


@pytest.mark.parametrize(("strategy", "runs", "kept"), STRATEGIES)
async def test_a_job_that_kills_its_worker_runs_as_often_as_its_strategy_allows(
    strategy: bee.StallStrategy, runs: int, kept: bool
) -> None:
    policy = bee.Policy(timeout=None, on_stall=strategy)
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(runs + 2):
            await bees.advance(LEASE)
            await bees.crash()
            await begin(bees)
        await bees.advance(LEASE)

        assert ["a"] * runs == bees.runs
        assert Counter({("a", "Stalled", "Archive" if kept else "Delete"): 1}) == settled(bees)
        assert (0, Counter({"stalled": 1} if kept else {})) == await end_of(bees)


async def test_a_job_that_may_fail_for_ever_is_repeated_for_ever() -> None:
    backoff = bee.Backoff(min=1, factor=1, max=1, jitter=0)
    policy = bee.Policy(on_error=bee.Repeat(None), backoff=backoff)
    async with at_work(fail, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(500)

        assert 501 == len(bees.runs)
        assert Counter({("a", "Failed", "Reschedule"): 501}) == settled(bees)
        assert (1, Counter()) == await end_of(bees)


async def test_a_job_that_may_time_out_for_ever_is_repeated_for_ever() -> None:
    backoff = bee.Backoff(min=1, factor=1, max=1, jitter=0)
    policy = bee.Policy(timeout=1, on_timeout=bee.Repeat(None), backoff=backoff)
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(100)

        assert 51 == len(bees.runs)
        assert (1, Counter()) == await end_of(bees)


async def test_a_job_that_may_stall_for_ever_is_repeated_for_ever() -> None:
    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(None))
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        for _ in range(12):
            await bees.crash()
            await begin(bees)
            await bees.advance(LEASE)

        assert ["a"] * 13 == bees.runs
        assert Counter() == settled(bees)


@pytest.mark.parametrize("strategy", TERMINAL)
async def test_a_job_that_succeeds_is_deleted_or_archived(strategy: bee.ArchiveStrategy) -> None:
    async with at_work(nothing, policy=bee.Policy(on_success=strategy)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        kept = isinstance(strategy, bee.Archive)
        assert Counter({("a", "Succeeded", type(strategy).__name__): 1}) == settled(bees)
        assert (0, Counter({"succeeded": 1} if kept else {})) == await end_of(bees)


@pytest.mark.parametrize(
    ("strategy", "left"),
    [
        (bee.Delete(), (0, Counter())),
        (bee.Archive(), (0, Counter({"interrupted": 1}))),
        (bee.Reschedule(front=True), (1, Counter())),
        (bee.Reschedule(60), (1, Counter())),
    ],
)
async def test_a_job_that_is_interrupted_ends_as_its_strategy_says(
    strategy: bee.InterruptStrategy, left: tuple[int, Counter[str]]
) -> None:
    policy = bee.Policy(timeout=None, on_interrupt=strategy)
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await bees.stop()

        assert Counter({("a", "Interrupted", type(strategy).__name__): 1}) == settled(bees)
        assert left == await end_of(bees)


async def test_the_gaps_between_repeats_follow_the_backoff(bee_clock: ManualClock) -> None:
    starts: list[float] = []

    async def handle(job: Work) -> None:
        starts.append(bee_clock.now())
        raise ValueError("no")

    policy = bee.Policy(on_error=bee.Repeat(9), backoff=STEADY)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(LONG)

    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert [2, 4, 8, 16, 32, 64, 128, 256, 300] == gaps


async def test_a_repeat_with_a_backoff_of_its_own_prefers_it(bee_clock: ManualClock) -> None:
    starts: list[float] = []

    async def handle(job: Work) -> None:
        starts.append(bee_clock.now())
        raise ValueError("no")

    own = bee.Backoff(min=7, factor=1, max=7, jitter=0)
    policy = bee.Policy(on_error=bee.Repeat(2, backoff=own), backoff=STEADY)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(LONG)

    assert [0, 7, 14] == [start - starts[0] for start in starts]


async def test_jitter_shortens_a_gap_and_never_lengthens_it(bee_clock: ManualClock) -> None:
    starts: list[float] = []

    async def handle(job: Work) -> None:
        starts.append(bee_clock.now())
        raise ValueError("no")

    backoff = bee.Backoff(min=10, factor=1, max=10, jitter=0.5)
    policy = bee.Policy(on_error=bee.Repeat(50), backoff=backoff)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(LONG)

    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert 50 == len(gaps)
    assert [] == [gap for gap in gaps if not 5 <= gap <= 10]
    assert len(set(gaps)) > 1


async def test_a_timeout_is_measured_from_the_start_of_the_run(bee_clock: ManualClock) -> None:
    policy = bee.Policy(timeout=10, on_timeout=bee.Repeat(1), backoff=STEADY)
    async with at_work(hang, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), delay=5)
        await bees.advance(LONG)

        after = [event.duration for event in heard(bees, AttemptSettled)]
        assert [10, 10] == after


async def test_a_message_that_stalled_keeps_its_place_before_younger_ones() -> None:
    policy = bee.Policy(timeout=None)
    async with at_work(hang, policy=policy, concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="old")
        await bees.clock.settle()
        await bees.crash()
        await jobs.send(Work(), id="young")
        await bees.advance(LEASE)
        await begin(bees)

        assert ["old", "old"] == bees.runs
