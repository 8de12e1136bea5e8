"""What a handler may return, and what that does to its job."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.outcome import Failed, Ruled, Succeeded
from bee_core.testing import HiveUnderTest, ManualClock

from .support import STEADY, Jobs, Work, at_work, heard, live, reasons, settled

LONG = 100_000.0


async def state_of(bees: HiveUnderTest, id: str) -> tuple[bee.State, bee.Counters]:
    stored = await bees.broker.inner.get("jobs", id)
    assert stored is not None
    return stored.state, stored.counters


def returning(result: object) -> Callable[[Work], object]:
    async def handle(job: Work) -> object:
        return result

    return handle


@pytest.mark.parametrize(
    "result", [None, 0, False, "", "text", [], {"a": 1}, ..., object, ValueError("returned")]
)
async def test_returning_is_success_whatever_is_returned(result: object) -> None:
    async with at_work(returning(result)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        (event,) = heard(bees, AttemptSettled)
        assert (Succeeded(result), bee.Delete()) == (event.outcome, event.disposition)


@pytest.mark.parametrize("disposition", [bee.Delete(), bee.Archive(), bee.Reschedule(60)])
async def test_returning_a_disposition_overrules_the_policy(disposition: bee.Disposition) -> None:
    policy = bee.Policy(on_success=bee.Archive(), on_error=bee.Repeat(None))
    async with at_work(returning(disposition), policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()

        (event,) = heard(bees, AttemptSettled)
        assert (Ruled(disposition), disposition) == (event.outcome, event.disposition)
        assert (1 if isinstance(disposition, bee.Reschedule) else 0) == await live(bees)
        expected = {"ruled": 1} if disposition == bee.Archive() else {}
        assert Counter(expected) == await reasons(bees)


async def test_a_job_that_reschedules_itself_is_not_counted_as_failed(
    bee_clock: ManualClock,
) -> None:
    async with at_work(returning(bee.Reschedule(60)), clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(180)

        assert ["a"] * 4 == bees.runs
        expected = bee.Counters(deliveries=4, releases=4)
        assert (bee.State.DELAYED, expected) == await state_of(bees, "a")


@pytest.mark.parametrize("raises", [True, False])
async def test_a_snooze_comes_back_when_it_says_and_costs_nothing(
    raises: bool, bee_clock: ManualClock
) -> None:
    starts: list[tuple[float, int]] = []
    zero = bee_clock.now()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> object:
        starts.append((bee_clock.now() - zero, delivery.attempt))
        if raises:
            raise bee.Snooze(15)
        return bee.Snooze(15)

    policy = bee.Policy(on_error=bee.Archive())
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(30)

        assert [(0, 1), (15, 1), (30, 1)] == starts
        assert bee.Counters(deliveries=3, releases=3) == (await state_of(bees, "a"))[1]


@pytest.mark.parametrize("raises", [True, False])
async def test_a_retry_comes_back_when_it_says_and_counts_as_an_error(
    raises: bool, bee_clock: ManualClock
) -> None:
    starts: list[float] = []
    zero = bee_clock.now()

    async def handle(job: Work) -> object:
        starts.append(bee_clock.now() - zero)
        if raises:
            raise bee.Retry("again", after=0.5)
        return bee.Retry("again", after=0.5)

    policy = bee.Policy(on_error=bee.Repeat(2), backoff=STEADY)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        assert [0, 0.5, 1.0] == starts
        assert Counter({"failed": 1}) == await reasons(bees)


async def test_a_retry_without_a_time_waits_for_the_backoff(bee_clock: ManualClock) -> None:
    policy = bee.Policy(on_error=bee.Repeat(3), backoff=STEADY)
    async with at_work(returning(bee.Retry()), policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(2 + 4 + 8)

        delays = [event.disposition for event in heard(bees, AttemptSettled)][:3]
        assert [bee.Reschedule(2), bee.Reschedule(4), bee.Reschedule(8)] == delays


async def test_a_retry_overrules_a_policy_that_would_not_repeat() -> None:
    policy = bee.Policy(on_error=bee.Archive())
    async with at_work(returning(bee.Retry(after=1)), policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Failed", "Reschedule"): 1}) == settled(bees)


def undecorated(function: Callable[[Work], object]) -> Callable[[Work], object]:
    """What many decorators do to an async function: it no longer looks like one."""

    @functools.wraps(function)
    def wrapper(job: Work) -> object:
        return function(job)

    return wrapper


async def finish(bees: HiveUnderTest, jobs: Jobs) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with suppress(TimeoutError):
            await bees.drain()
        outcome = heard(bees, AttemptSettled)[-1].outcome
        if isinstance(outcome, Succeeded) and asyncio.iscoroutine(outcome.result):
            outcome.result.close()


async def test_an_async_handler_behind_a_plain_decorator_is_run() -> None:
    ran: list[str] = []

    @undecorated
    async def handle(job: Work) -> None:
        await asyncio.sleep(0)
        ran.append(job.what)

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work("x"), id="a")
        await finish(bees, jobs)

        assert ["x"] == ran


async def test_a_coroutine_that_nobody_awaits_is_not_taken_for_success() -> None:
    async def work(job: Work) -> None: ...

    async def handle(job: Work) -> object:
        return work(job)

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await finish(bees, jobs)

        (event,) = heard(bees, AttemptSettled)
        ran = isinstance(event.outcome, Succeeded) and event.outcome.result is None
        assert ran or isinstance(event.outcome, Failed)


async def test_an_async_generator_is_refused_as_a_handler_or_run() -> None:
    ran: list[str] = []

    async def handle(job: Work) -> AsyncIterator[int]:
        ran.append(job.what)
        yield 1

    try:
        async with at_work(handle) as (bees, jobs):
            await jobs.send(Work("x"))
            await bees.drain()
    except bee.InvalidOption:
        return

    assert ["x"] == ran


async def test_a_handler_may_be_an_object_or_a_partial() -> None:
    seen: list[str] = []

    class Callable_:
        async def __call__(self, job: Work) -> None:
            seen.append(f"object {job.what}")

    async def handle(prefix: str, job: Work) -> None:
        seen.append(f"{prefix} {job.what}")

    for handler in (Callable_(), functools.partial(handle, "partial")):
        async with at_work(handler) as (bees, jobs):
            await jobs.send(Work("x"))
            await bees.drain()

    assert ["object x", "partial x"] == seen
