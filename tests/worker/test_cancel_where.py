"""Cancelling by what a job is, and how soon a running one hears of it."""

from __future__ import annotations

import asyncio

import pytest

import bee_core as bee
from bee_core.events import AttemptLost
from bee_core.message import Draft
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, heard, live, reasons

FOREVER = bee.Policy(timeout=None)


class Waiter:
    """A handler that waits, and knows who was cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.end = asyncio.Event()

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled.append(delivery.id)
            raise


async def test_what_the_predicate_picks_is_cancelled_and_nothing_else() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Work)
    for number in range(2000):
        await queue.send(Work(number=number), id=str(number), delay=60 * (number % 2))

    cancelled = await queue.cancel_where(lambda job: job.number % 5 == 0)

    assert {str(number) for number in range(0, 2000, 5)} == set(cancelled)
    assert 400 == len(cancelled)
    stats = await broker.stats("jobs")
    assert (1600, {"cancelled": 400}) == (stats.live, stats.archived)


async def test_it_may_delete_instead() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send(Work("x"), id="a")

    assert ["a"] == await queue.cancel_where(lambda job: True, to=bee.Delete())
    assert bee.QueueStats(created=1) == await broker.stats("jobs")


async def test_what_is_no_job_of_the_queue_is_left_alone() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Work)
    strange = [
        Draft("malformed", b"\xff"),
        Draft("unknown", b'{"v":1,"job":{"type":"stranger"}}'),
        Draft("own", queue.draft(Work()).body, headers={"bee-kind": "failure"}),
    ]
    await broker.send("jobs", strange)
    await queue.send(Work(), id="a")

    assert ["a"] == await queue.cancel_where(lambda job: True)
    assert 3 == (await broker.stats("jobs")).live


async def test_a_predicate_that_raises_is_heard_and_does_no_harm() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send(Work(), id="a")

    with pytest.raises(ZeroDivisionError):
        await queue.cancel_where(lambda job: 1 / job.number > 1)
    assert 1 == (await broker.stats("jobs")).live


async def test_what_runs_is_left_alone_unless_it_is_meant_too(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER, concurrency=2) as (bees, jobs):
        for id in ("one", "two", "three"):
            await jobs.send(Work(id), id=id)
        await bees.advance(0)

        assert ["three"] == await jobs.cancel_where(lambda job: True)
        await bees.advance(LEASE)
        assert [] == waiter.cancelled
        assert ["one"] == await jobs.cancel_where(lambda job: job.what == "one", running=True)
        await bees.advance(LEASE)
        assert ["one"] == waiter.cancelled


async def test_a_successor_is_judged_by_itself(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work("running"), id="a")
        await bees.advance(0)
        await jobs.send(Work("next"), id="a", if_taken=bee.Update())

        picked = await jobs.cancel_where(lambda job: job.what == "next", running=True)
        await bees.advance(LEASE)

        assert ["a"] == picked
        assert [] == waiter.cancelled
        assert 1 == await live(bees)


async def test_a_run_and_its_successor_may_both_be_meant(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work("running"), id="a")
        await bees.advance(0)
        await jobs.send(Work("next"), id="a", if_taken=bee.Update())

        await jobs.cancel_where(lambda job: True, running=True)
        await bees.advance(LEASE)

        assert ["a"] == waiter.cancelled
        assert 0 == await live(bees)
        assert {"cancelled": 2} == await reasons(bees)


async def test_what_waits_for_its_key_or_for_reports_is_found_too(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="holder", key="ada")
        await bees.advance(0)
        await jobs.send(Work("x"), id="parked", key="ada")
        await jobs.group([Work("x")], then=Work("x"), id="group")
        await bees.advance(0)

        cancelled = await jobs.cancel_where(lambda job: job.what == "x")

        assert {"parked", "group"} == set(cancelled)


# How soon a running job hears of it.


async def test_a_cancelled_job_of_a_worker_with_room_is_told_at_once(
    bee_clock: ManualClock,
) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await jobs.send(Work(), id="b")
        await bees.advance(5)
        await jobs.cancel("a")
        await bees.advance(0.1)

        assert ["a"] == waiter.cancelled
        assert ["a"] == [event.id for event in heard(bees, AttemptLost)]


async def test_all_workers_that_wait_are_woken_since_any_may_hold_it(
    bee_clock: ManualClock,
) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        others = [
            bee.Worker(
                bees.broker,
                "jobs",
                Work,
                waiter,
                clock=bee_clock,
                poll=86_400,
                observers=(),
                policy=FOREVER,
            )
            for _ in range(3)
        ]
        tasks = [asyncio.create_task(worker.run()) for worker in others]
        for worker in others:
            await worker.started()
        await bees.advance(0)
        for number in range(8):
            await jobs.send(Work(), id=str(number))
            await bees.advance(0.1)
        await bees.advance(2)
        await jobs.cancel(*map(str, range(8)))
        await bees.advance(1.1)

        assert set(map(str, range(8))) == set(waiter.cancelled)
        for worker in others:
            worker.stop(grace=0)
        await asyncio.gather(*tasks)


async def test_a_worker_without_room_is_told_within_a_heartbeat(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER, concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(0)
        await jobs.cancel("a")
        await bees.advance(1)
        assert [] == waiter.cancelled
        await bees.advance(LEASE / 3)

        assert ["a"] == waiter.cancelled


async def test_wake_ups_in_vain_cost_one_renewal_in_a_second(bee_clock: ManualClock) -> None:
    waiter = Waiter()
    async with at_work(waiter, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(5)
        before = bees.broker.calls["extend"]
        for _ in range(100):
            await bees.broker.inner.resume("jobs")  # rings, and nothing is there
            await bees.advance(0.1)

        assert 8 <= bees.broker.calls["extend"] - before <= 11


async def test_wake_ups_that_bring_something_cost_no_renewal(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        if job.what == "long":
            await bee_clock.sleep(1000)

    async with at_work(handle, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work("long"), id="a")
        await bees.advance(0)
        for _ in range(50):
            await jobs.send(Work())
            await bees.advance(0.1)

        assert 0 == bees.broker.calls["extend"]


async def test_an_idle_worker_renews_nothing_when_it_is_woken(bee_clock: ManualClock) -> None:
    async with at_work(Waiter(), clock=bee_clock) as (bees, _):
        for _ in range(10):
            await bees.broker.inner.resume("jobs")
            await bees.advance(2)

        assert 0 == bees.broker.calls["extend"]
