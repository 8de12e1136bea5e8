"""Stopping a worker at each phase: what runs may end, what does not is given back, all leave."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, BrokerTrouble, WorkerStarted, WorkerStopped
from bee_core.testing import HiveUnderTest, ManualClock

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

FOREVER = bee.Policy(timeout=None)


class Timed:
    """Takes as many seconds as its job says; knows who was cancelled."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.cancelled: list[str] = []

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        try:
            await self._clock.sleep(job.number)
        except asyncio.CancelledError:
            self.cancelled.append(delivery.id)
            raise


async def has_stopped(bees: HiveUnderTest, times: int = 1) -> None:
    await until(lambda: len(heard(bees, WorkerStopped)) == times)


async def state_of(bees: HiveUnderTest, id: str) -> tuple[bee.State, bee.Counters]:
    stored = await bees.broker.inner.get("jobs", id)
    assert stored is not None
    return stored.state, stored.counters


async def test_an_idle_worker_stops_at_once(bee_clock: ManualClock) -> None:
    start = bee_clock.now()
    async with at_work(nothing, clock=bee_clock) as (bees, _):
        bees.hive.stop()
        await has_stopped(bees)

    assert start + 1 >= bee_clock.now()


async def test_nothing_is_leased_after_a_stop(bee_clock: ManualClock) -> None:
    async with at_work(Timed(bee_clock), clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(number=5), id="a")
        await bees.clock.settle()
        bees.hive.stop()
        leases = bees.broker.calls["lease"]
        await jobs.send(Work(), id="b")
        await bees.advance(10)
        await has_stopped(bees)

        assert leases == bees.broker.calls["lease"]
        assert ["a"] == bees.runs
        assert (bee.State.READY, bee.Counters()) == await state_of(bees, "b")


async def test_a_job_that_ends_within_the_grace_ends_well(bee_clock: ManualClock) -> None:
    handler = Timed(bee_clock)
    async with at_work(handler, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(number=20), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=25)
        await bees.advance(20)
        await has_stopped(bees)

        assert [] == handler.cancelled
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_leases_are_renewed_while_a_worker_drains(bee_clock: ManualClock) -> None:
    async with at_work(Timed(bee_clock), clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(number=10 * int(LEASE)), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=20 * LEASE)
        for _ in range(9):
            await bees.advance(LEASE)
            assert [] == await bees.broker.inner.lease("jobs", limit=1, duration=1, holder="other")
        await bees.advance(LEASE)
        await has_stopped(bees)

        assert ["a"] == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_job_that_outlasts_the_grace_is_given_back_to_its_place_at_no_cost(
    bee_clock: ManualClock,
) -> None:
    handler = Timed(bee_clock)
    async with at_work(handler, clock=bee_clock, policy=FOREVER, concurrency=2) as (bees, jobs):
        for id in ("a", "b", "c"):
            await jobs.send(Work(number=1000), id=id)
        await bees.clock.settle()
        bees.hive.stop(grace=25)
        await bees.advance(24.9)

        assert [] == handler.cancelled

        await bees.advance(0.1)
        await has_stopped(bees)

        assert Counter("ab") == Counter(handler.cancelled)
        expected = bee.Counters(deliveries=1, releases=1)
        assert (bee.State.READY, expected) == await state_of(bees, "a")
        leases = await bees.broker.inner.lease("jobs", limit=3, duration=1, holder="next")
        assert ["a", "b", "c"] == [lease.receipt.id for lease in leases]


@pytest.mark.parametrize(
    ("strategy", "state"),
    [
        (bee.Reschedule(60), bee.State.DELAYED),
        (bee.Reschedule(), bee.State.READY),
        (bee.Archive(), bee.State.ARCHIVED),
    ],
)
async def test_an_interrupted_job_goes_where_its_policy_says(
    strategy: bee.InterruptStrategy, state: bee.State, bee_clock: ManualClock
) -> None:
    policy = bee.Policy(timeout=None, on_interrupt=strategy)
    async with at_work(Timed(bee_clock), clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(number=1000), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=0)
        await has_stopped(bees)

        assert (state, bee.Counters(deliveries=1, releases=1)) == await state_of(bees, "a")


async def test_a_job_that_is_to_be_deleted_when_interrupted_leaves_no_trace(
    bee_clock: ManualClock,
) -> None:
    policy = bee.Policy(timeout=None, on_interrupt=bee.Delete())
    async with at_work(Timed(bee_clock), clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(number=1000), id="a")
        await bees.clock.settle()
        await bees.stop()
        await begin(bees)
        await bees.advance(10 * LEASE)

        assert ["a"] == bees.runs
        assert (0, Counter()) == (await live(bees), await reasons(bees))


async def test_a_second_stop_hurries_and_can_never_delay(bee_clock: ManualClock) -> None:
    handler = Timed(bee_clock)
    async with at_work(handler, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(number=1000), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=100)
        bees.hive.stop(grace=500)
        await bees.advance(50)
        assert [] == handler.cancelled
        bees.hive.stop(grace=0)
        await bees.clock.settle()

        assert ["a"] == handler.cancelled
        await has_stopped(bees)


async def test_a_stop_while_a_lease_is_under_way_gives_back_what_it_brings(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop(grace=0)
        gate.open()
        await has_stopped(bees)

        assert [] == bees.runs
        expected = bee.Counters(deliveries=1, releases=1)
        assert (bee.State.READY, expected) == await state_of(bees, "a")


async def test_a_job_that_was_never_started_is_given_back_whatever_its_policy_says(
    bee_clock: ManualClock,
) -> None:
    policy = bee.Policy(on_interrupt=bee.Delete())
    async with at_work(nothing, clock=bee_clock, policy=policy) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop(grace=0)
        gate.open()
        await has_stopped(bees)

        assert bee.State.READY == (await state_of(bees, "a"))[0]


async def test_a_stop_while_a_settlement_is_under_way_waits_for_it(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        gate = bees.broker.gate("settle")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop(grace=0)
        await bees.clock.settle()
        assert [] == heard(bees, WorkerStopped)
        gate.open()
        await has_stopped(bees)

        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_stop_while_the_broker_is_away_does_not_wait_for_ever(
    bee_clock: ManualClock,
) -> None:
    handler = Timed(bee_clock)
    async with at_work(handler, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(number=3), id="done")
        await jobs.send(Work(number=1000), id="interrupted")
        await bees.clock.settle()
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        await bees.advance(5)
        bees.hive.stop(grace=1)
        await bees.advance(8)
        await has_stopped(bees)
        bees.broker.come_back()
        await bees.stop()
        await begin(bees)
        await bees.advance(LEASE + 5)

        assert Counter({"done": 2, "interrupted": 2}) == Counter(bees.runs)


async def test_a_stop_while_an_idle_worker_backs_off_is_immediate(bee_clock: ManualClock) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        await bees.broker.inner.send("jobs", [jobs.draft(Work())])
        await bees.advance(100)
        before = bee_clock.now()
        bees.hive.stop()
        await has_stopped(bees)

        assert before == bee_clock.now()


async def test_a_stop_with_a_stuck_handler_leaves_it_behind(bee_clock: ManualClock) -> None:
    let_go = asyncio.Event()

    async def handle(job: Work) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async with at_work(handle, clock=bee_clock, policy=FOREVER, concurrency=2) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=5)
        await bees.advance(5 + 1)
        assert Counter({"AttemptStarted": 1}) == counted(bees)
        await bees.advance(1)
        await has_stopped(bees)

        assert Counter({"AttemptStarted": 1, "HandlerStuck": 1, "AttemptSettled": 1}) == counted(
            bees
        )
        assert Counter({("a", "Interrupted", "Reschedule"): 1}) == settled(bees)
        assert [1] == [event.stuck for event in heard(bees, WorkerStopped)]
        let_go.set()


async def test_a_job_that_fails_during_the_drain_is_treated_as_its_policy_says(
    bee_clock: ManualClock,
) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(5)
        raise ValueError("no")

    policy = bee.Policy(on_error=bee.Repeat(1))
    async with at_work(handle, clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.hive.stop(grace=25)
        await bees.advance(5)
        await has_stopped(bees)

        assert Counter({("a", "Failed", "Reschedule"): 1}) == settled(bees)


async def test_a_job_that_times_out_during_the_drain_is_timed_out(bee_clock: ManualClock) -> None:
    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    async with at_work(Timed(bee_clock), clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(number=1000), id="a")
        await bees.advance(5)
        bees.hive.stop(grace=25)
        await bees.advance(5)
        await has_stopped(bees)

        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)


async def test_the_last_event_of_a_worker_is_that_it_has_stopped(bee_clock: ManualClock) -> None:
    async with at_work(Timed(bee_clock), clock=bee_clock, policy=FOREVER) as (bees, jobs):
        for number in range(5):
            await jobs.send(Work(number=number), id=str(number))
        await bees.advance(2)
        await bees.stop()

        assert isinstance(bees.events[0], WorkerStarted)
        assert isinstance(last := bees.events[-1], WorkerStopped)
        assert 5 == last.settled == len(heard(bees, AttemptSettled))


async def test_a_cancellation_that_a_broker_lets_out_as_a_worker_leaves_is_only_trouble(
    bee_clock: ManualClock,
) -> None:
    leak: Exception = asyncio.CancelledError()  # type: ignore[assignment]
    async with at_work(nothing, clock=bee_clock) as (bees, _):
        bees.broker.fail("announce", leak)

        await bees.stop()

    assert ["announce"] == [event.verb for event in heard(bees, BrokerTrouble)]
    assert 1 == len(heard(bees, WorkerStopped))
