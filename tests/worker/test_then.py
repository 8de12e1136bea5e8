"""What a handler sends with `delivery.then`: in the step that settles it as done, and only then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

import bee_core as bee
from bee_core.testing import ManualClock

from .support import LEASE, STEADY, Work, at_work, live, settled

Handle = Callable[[Work, "bee.Delivery[Work]"], object]


async def test_what_follows_is_sent_when_the_job_is_settled_and_not_before() -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "parent":
            delivery.then(Work("child"), id="child")

    async with at_work(handle) as (bees, jobs):
        gate = bees.broker.gate("settle")
        await jobs.send(Work("parent"), id="parent")
        await gate.reached.wait()

        assert None is await bees.broker.inner.get("jobs", "child")

        gate.open()
        await bees.drain()

        assert ["parent", "child"] == bees.runs


async def test_then_returns_the_id_of_what_will_be_sent() -> None:
    ids: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "parent":
            ids.append(delivery.then(Work("named"), id="named"))
            ids.append(delivery.then(Work("unnamed")))

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work("parent"), id="parent")
        await bees.drain()

        assert ["parent", *ids] == bees.runs
        assert "named" == ids[0]


async def test_any_number_of_jobs_may_follow_each_with_its_own_options(
    bee_clock: ManualClock,
) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "parent":
            for number in range(100):
                delivery.then(Work("child", number), id=f"child-{number}")
            delivery.then(Work("late"), id="late", delay=60)
            delivery.then(Work("urgent"), id="urgent", priority=9)

    async with at_work(handle, concurrency=1, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work("parent"), id="parent")
        await bees.drain()

        assert ["parent", "urgent", *(f"child-{n}" for n in range(100))] == bees.runs

        await bees.advance(60)

        assert "late" == bees.runs[-1]


async def fail(job: Work, delivery: bee.Delivery[Work]) -> object:
    delivery.then(Work("child"), id="child")
    raise ValueError("no")


async def snooze(job: Work, delivery: bee.Delivery[Work]) -> object:
    delivery.then(Work("child"), id="child")
    return bee.Snooze(1000)


async def reschedule(job: Work, delivery: bee.Delivery[Work]) -> object:
    delivery.then(Work("child"), id="child")
    return bee.Reschedule(1000)


async def retry(job: Work, delivery: bee.Delivery[Work]) -> object:
    delivery.then(Work("child"), id="child")
    raise bee.Retry(after=1000)


async def hang(job: Work, delivery: bee.Delivery[Work]) -> object:
    delivery.then(Work("child"), id="child")
    return await asyncio.Event().wait()


@pytest.mark.parametrize("handle", [fail, snooze, reschedule, retry, hang])
@pytest.mark.parametrize("on_error", [bee.Archive(), bee.Delete(), bee.Repeat(1)])
async def test_nothing_follows_from_a_job_that_is_not_done(
    handle: Handle, on_error: bee.ErrorStrategy
) -> None:
    policy = bee.Policy(timeout=10, on_error=on_error, on_timeout=on_error)
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="parent")
        await bees.advance(11)

        assert None is await bees.broker.inner.get("jobs", "child")
        assert {"parent"} == set(bees.runs)


@pytest.mark.parametrize("strategy", [bee.Delete(), bee.Archive(), bee.Reschedule(5)])
async def test_nothing_follows_from_a_job_that_is_interrupted(
    strategy: bee.InterruptStrategy,
) -> None:
    policy = bee.Policy(timeout=None, on_interrupt=strategy)
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="parent")
        await bees.clock.settle()
        await bees.stop()

        assert None is await bees.broker.inner.get("jobs", "child")


async def test_nothing_follows_from_a_job_that_was_lost() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        delivery.then(Work("child"), id="child")
        await go_on.wait()

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="parent")
        await bees.clock.settle()
        await jobs.cancel("parent", to=bee.Delete())
        go_on.set()
        await bees.drain()

        assert 0 == await live(bees)
        assert ["parent"] == bees.runs


async def test_nothing_is_left_over_from_a_run_that_failed(bee_clock: ManualClock) -> None:
    """Each run gathers afresh: a repeat does not send what an earlier run asked for."""

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "parent":
            delivery.then(Work("child"), id=f"child-{delivery.attempt}")
            if delivery.attempt < 3:
                raise ValueError("no")

    policy = bee.Policy(on_error=bee.Repeat(5), backoff=STEADY)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work("parent"), id="parent")
        await bees.advance(100)

        assert ["parent", "parent", "parent", "child-3"] == bees.runs


@pytest.mark.parametrize("ruling", [bee.Delete(), bee.Archive()])
async def test_what_follows_is_sent_when_the_handler_itself_ends_the_job(
    ruling: bee.Terminal,
) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> object:
        if job.what == "parent":
            delivery.then(Work("child"), id="child")
            return ruling
        return None

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work("parent"), id="parent")
        await bees.drain()

        assert ["parent", "child"] == bees.runs


async def test_a_job_may_be_followed_by_itself() -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.number:
            delivery.then(Work(number=job.number - 1), id=delivery.id)

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work(number=3), id="a")
        await bees.drain()

        assert ["a"] * 4 == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 4}) == settled(bees)


async def test_what_follows_cannot_be_what_the_queue_would_not_take() -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        delivery.then(Work("child"), priority=99)

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)


async def test_a_crash_before_the_settlement_sends_nothing_and_after_it_everything() -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.what == "parent":
            delivery.then(Work("child"), id="child")

    for when, expected in (("before", False), ("after", True)):
        async with at_work(handle, concurrency=1) as (bees, jobs):
            gate = bees.broker.gate("settle", when=when)  # type: ignore[arg-type]
            await jobs.send(Work("parent"), id="parent")
            await gate.reached.wait()
            await bees.crash()

            child = await bees.broker.inner.get("jobs", "child")
            assert expected == (child is not None)


async def test_what_follows_a_repeated_settlement_is_not_sent_again_after_it_ran(
    bee_clock: ManualClock,
) -> None:
    """The answer is lost, the child runs and is gone, and only then is the settlement repeated."""
    seen: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen.append(delivery.id)
        if job.what == "parent":
            delivery.then(Work("child"), id="child")

    async with at_work(handle, clock=bee_clock) as (bees, jobs):
        bees.broker.lose_answer("settle")
        await jobs.send(Work("parent"), id="parent")
        gate = bees.broker.gate("settle")
        await gate.reached.wait()
        await bees.broker.inner.pause("jobs")
        gate.open()
        await bees.clock.settle()
        await bees.broker.inner.resume("jobs")
        (lease,) = await bees.broker.inner.lease("jobs", limit=1, duration=9, holder="other")
        assert "child" == lease.receipt.id
        await bees.broker.inner.settle("jobs", [bee.Settlement(lease.receipt, bee.Delete())])
        await bees.advance(2 * LEASE)

        assert ["parent"] == seen
        assert 0 == await live(bees)
