"""Jobs that take their worker down, and crashes at every moment: nothing is ever lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.testing import HiveUnderTest, ManualClock
from bee_core.testing.faults import When

from .support import (
    LEASE,
    Work,
    at_work,
    begin,
    counted,
    heard,
    live,
    nothing,
    reasons,
    settled,
    until,
)

KEPT = bee.Policy(timeout=None, on_success=bee.Archive(), on_stall=bee.Repeat(None))


class Poison:
    """Hangs on poison, which the test takes for the moment to crash; does the rest."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.calls[delivery.id] += 1
        if job.what == "poison":
            await asyncio.Event().wait()


async def crash_while_it_runs(bees: HiveUnderTest, times: int) -> None:
    for _ in range(times):
        await bees.clock.settle()
        await bees.crash()
        await begin(bees)
        await bees.advance(LEASE)


@pytest.mark.parametrize("times", [0, 1, 3])
async def test_poison_is_archived_after_as_many_crashes_as_its_policy_allows(times: int) -> None:
    handler = Poison()
    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(times))
    async with at_work(handler, policy=policy) as (bees, jobs):
        await jobs.send(Work("poison"), id="poison")
        await crash_while_it_runs(bees, times + 1)

        assert Counter({"poison": times + 1}) == handler.calls
        assert (0, Counter({"stalled": 1})) == (await live(bees), await reasons(bees))
        (archived,) = await bees.archived(jobs)
        assert bee.Counters(deliveries=times + 2, stalls=times + 1) == archived.counters

        await crash_while_it_runs(bees, 2)

        assert Counter({"poison": times + 1}) == handler.calls


async def test_the_neighbours_of_poison_survive_it() -> None:
    handler = Poison()
    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(2))
    async with at_work(handler, policy=policy, concurrency=4) as (bees, jobs):
        await jobs.send(Work("poison"), id="poison")
        for number in range(12):
            await jobs.send(Work(), id=f"good-{number}")
        await crash_while_it_runs(bees, 5)

        assert 3 == handler.calls["poison"]
        assert {f"good-{number}" for number in range(12)} | {"poison"} == set(handler.calls)
        assert (0, Counter({"stalled": 1})) == (await live(bees), await reasons(bees))


async def test_a_job_that_was_merely_beside_poison_is_not_archived_with_it() -> None:
    """A long job shares two crashes with the poison, and then has a worker to itself."""
    handler = Poison()
    done: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await handler(job, delivery)
        await bees.clock.sleep(2 * LEASE)
        done.append(delivery.id)

    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(2))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work("poison"), id="poison", policy=bee.Policy(on_stall=bee.Repeat(1)))
        await jobs.send(Work(), id="long")
        await crash_while_it_runs(bees, 2)
        await bees.advance(3 * LEASE)

        assert ["long"] == done
        assert Counter({"stalled": 1}) == await reasons(bees)


async def test_a_restored_poison_starts_with_a_clean_slate() -> None:
    handler = Poison()
    policy = bee.Policy(timeout=None, on_stall=bee.Archive())
    async with at_work(handler, policy=policy) as (bees, jobs):
        await jobs.send(Work("poison"), id="poison")
        await crash_while_it_runs(bees, 1)
        await bees.broker.restore("jobs", ["poison"])
        await bees.clock.settle()

        assert Counter({"poison": 2}) == handler.calls


async def test_a_stall_is_not_held_against_a_job_that_fails_later() -> None:
    """It has stalled as often as it may; its errors are counted on their own."""
    tries: list[int] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        tries.append(delivery.attempt)
        if len(tries) <= 2:
            await asyncio.Event().wait()
        raise ValueError("no")

    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(2), on_error=bee.Repeat(2))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await crash_while_it_runs(bees, 2)
        await bees.advance(1000)

        assert [1, 2, 3, 4, 5] == tries
        assert Counter({"failed": 1}) == await reasons(bees)


VERBS = ["lease", "settle", "wait"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("verb", VERBS)
async def test_a_crash_at_any_call_loses_nothing(verb: str, nth: int, when: When) -> None:
    """The worker dies at the nth call of the verb, before or after the broker has done it."""
    async with at_work(nothing, policy=KEPT, concurrency=2) as (bees, jobs):
        gates = [bees.broker.gate(verb, when=when) for _ in range(nth)]
        for gate in gates[:-1]:
            gate.open()
        for number in range(6):
            await jobs.send(Work(), id=str(number))
            await bees.advance(0.1)
        if gates[-1].reached.is_set():
            await bees.crash()
            await begin(bees)
        gates[-1].open()
        await bees.advance(3 * LEASE)

        assert {str(number) for number in range(6)} == set(bees.runs)
        assert (0, Counter({"succeeded": 6})) == (await live(bees), await reasons(bees))


@pytest.mark.parametrize("seconds", [0, 1, 9.9, 10, 10.1, 20, 29.9, 30, 45])
async def test_a_crash_at_any_time_of_a_long_job_loses_nothing(seconds: float) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await bees.clock.sleep(40)

    async with at_work(handle, policy=KEPT) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(seconds)
        await bees.crash()
        await begin(bees)
        await bees.advance(3 * LEASE)

        assert (0, Counter({"succeeded": 1})) == (await live(bees), await reasons(bees))
        assert ["a"] * (1 if seconds >= 40 else 2) == bees.runs


async def test_crash_after_crash_loses_nothing(bee_clock: ManualClock) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await bee_clock.sleep(3)
        if delivery.attempt < 3:
            raise ValueError("no")

    policy = bee.Policy(
        timeout=None,
        on_success=bee.Archive(),
        on_stall=bee.Repeat(None),
        on_error=bee.Repeat(None),
    )
    async with at_work(handle, policy=policy, clock=bee_clock, concurrency=3) as (bees, jobs):
        for number in range(20):
            await jobs.send(Work(), id=str(number))
        for step in range(25):
            await bees.advance(0.7 + step % 5)
            await bees.crash()
            await begin(bees)
        await bees.advance(20 * LEASE)

        assert {str(number) for number in range(20)} == set(bees.runs)
        assert (0, Counter({"succeeded": 20})) == (await live(bees), await reasons(bees))


async def test_a_kill_settles_nothing_at_all() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    async with at_work(handle, policy=KEPT) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        go_on.set()
        await bees.crash()
        await bees.clock.settle()

        assert Counter() == settled(bees)
        assert 0 == bees.broker.calls["settle"]
        assert Counter({"AttemptStarted": 1}) == counted(bees)


async def test_what_a_dead_worker_held_is_taken_over_when_its_lease_runs_out_and_not_before() -> (
    None
):
    async with at_work(nothing, policy=KEPT) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        await bees.crash()
        gate.open()
        await begin(bees)
        await bees.advance(LEASE - 0.001)

        assert [] == bees.runs

        await bees.advance(0.001)
        await until(lambda: heard(bees, AttemptSettled))

        assert ["a"] == bees.runs
