"""What a handler gets beside its job."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable

import pytest

import bee_core as bee
from bee_core.events import AttemptStarted
from bee_core.testing import ManualClock

from .support import LEASE, STEADY, Work, at_work, begin, heard, settled

Deliveries = list[bee.Delivery[Work]]


def keeping(deliveries: Deliveries) -> Callable[..., object]:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        deliveries.append(delivery)

    return handle


async def test_a_delivery_knows_its_job_and_its_queue(bee_clock: ManualClock) -> None:
    seen: Deliveries = []
    sent_at = bee_clock.now()
    async with at_work(keeping(seen), clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a", delay=60, headers={"trace": "1"})
        await bees.advance(60)

        (delivery,) = seen
        assert ("a", "jobs") == (delivery.id, delivery.queue)
        assert {"trace": "1"} == dict(delivery.headers)
        assert sent_at == delivery.sent_at
        assert bee.Counters(deliveries=1) == delivery.counters
        assert (1, False) == (delivery.attempt, delivery.redelivered)
        assert () == delivery.follow_ups


async def test_the_policy_that_was_sent_with_it_is_among_its_headers() -> None:
    seen: Deliveries = []
    async with at_work(keeping(seen)) as (bees, jobs):
        await jobs.send(Work(), headers={"x": "y"}, policy=bee.Policy(timeout=7))
        await bees.drain()

        assert "y" == seen[0].headers["x"]
        assert {"x", "bee-policy"} == set(seen[0].headers)


async def test_the_token_grows_with_every_delivery_and_is_that_of_the_lease() -> None:
    seen: Deliveries = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen.append(delivery)
        raise ValueError("no")

    policy = bee.Policy(on_error=bee.Repeat(3), backoff=STEADY)
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await jobs.send(Work(), id="b")
        await bees.advance(100)

        tokens = [delivery.token for delivery in seen]
        assert sorted(set(tokens)) == tokens
        assert tokens == [event.token for event in heard(bees, AttemptStarted)]
        assert {"a", "b"} == {delivery.id for delivery in seen}


async def test_the_deadline_is_the_start_and_the_timeout(bee_clock: ManualClock) -> None:
    left: list[float] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        assert bee_clock.now() + 30 == delivery.deadline
        left.append(delivery.remaining)
        await bee_clock.sleep(10)
        left.append(delivery.remaining)

    async with at_work(handle, clock=bee_clock, policy=bee.Policy(timeout=30)) as (bees, jobs):
        await jobs.send(Work(), delay=5, id="a")
        await bees.advance(20)

        assert [30, 20] == left
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_without_a_timeout_there_is_no_deadline() -> None:
    seen: Deliveries = []
    async with at_work(keeping(seen), policy=bee.Policy(timeout=None)) as (bees, jobs):
        await jobs.send(Work())
        await bees.drain()

        assert (math.inf, math.inf) == (seen[0].deadline, seen[0].remaining)


async def test_nothing_remains_once_the_deadline_has_passed(bee_clock: ManualClock) -> None:
    left: list[float] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await bee_clock.sleep(1)
            left.append(delivery.remaining)

    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    async with at_work(handle, clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(20)

    assert [-1] == left


async def test_the_attempt_counts_runs_and_not_what_cost_nothing(bee_clock: ManualClock) -> None:
    seen: list[tuple[int, int, bool]] = []
    script = ["snooze", "fail", "hang", "hang", "reschedule", "fail", "done"]

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> object:
        seen.append((delivery.attempt, delivery.counters.deliveries, delivery.redelivered))
        match script[len(seen) - 1]:
            case "snooze":
                raise bee.Snooze(1)
            case "fail":
                raise ValueError("no")
            case "hang":
                await asyncio.Event().wait()
            case "reschedule":
                return bee.Reschedule(1)
            case _:
                pass
        return None

    policy = bee.Policy(timeout=None, on_error=bee.Repeat(None), backoff=STEADY)
    async with at_work(handle, clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1 + 2)  # snoozed, failed, now it hangs
        await bees.stop()
        await begin(bees)  # interrupted, now it hangs again
        await bees.crash()
        await begin(bees)
        await bees.advance(LEASE + 1 + 4)

        assert [
            (1, 1, False),  # snoozed
            (1, 2, True),  # failed
            (2, 3, True),  # interrupted
            (2, 4, True),  # its worker died
            (3, 5, True),  # rescheduled itself
            (3, 6, True),  # failed
            (4, 7, True),  # done
        ] == seen


async def test_a_job_that_was_given_back_before_it_ran_is_on_its_first_attempt() -> None:
    seen: Deliveries = []
    async with at_work(keeping(seen)) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop()
        gate.open()
        await bees.stop()
        await begin(bees)
        await bees.drain()

        (delivery,) = seen
        assert (1, True) == (delivery.attempt, delivery.redelivered)
        assert bee.Counters(deliveries=2, releases=1) == delivery.counters


async def test_a_handler_may_take_the_job_alone_or_the_delivery_too() -> None:
    seen: list[str] = []

    async def one(job: Work) -> None:
        seen.append("one")

    async def two(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen.append("two")

    async def any_number(*args: object) -> None:
        seen.append(f"any: {len(args)}")

    async def with_defaults(job: Work, delivery: object = None, extra: int = 3) -> None:
        seen.append(f"defaults: {delivery is not None}, {extra}")

    for handler in (one, two, any_number, with_defaults):
        async with at_work(handler) as (bees, jobs):
            await jobs.send(Work())
            await bees.drain()

    assert ["one", "two", "any: 2", "defaults: True, 3"] == seen


async def test_a_handler_that_takes_neither_is_refused() -> None:
    async def none() -> None: ...

    async def three(job: Work, delivery: object, more: object) -> None: ...

    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work)
    for handler in (none, three):
        with pytest.raises(bee.InvalidOption, match="must take"):
            jobs.handlers.handle_all(handler)
