"""What handlers return, for those who sent the job: kept for a time, waited for, or refused."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, ResultDropped
from bee_core.outcome import Succeeded
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import DEFAULT, Work, at_work, heard, hive_for, outcomes, reasons, under_test

HOUR = bee.Policy(keep_result=3600)


async def double(job: Work) -> int:
    return 2 * job.number


def returns(value: object) -> Any:
    async def handle(job: Work) -> object:
        return value

    return handle


async def fails(job: Work) -> None:
    raise ValueError(f"cannot do {job.what}")


class Point(msgspec.Struct):
    x: int
    y: int


async def test_a_result_is_there_when_the_job_has_ended() -> None:
    async with at_work(double, policy=HOUR) as (bees, jobs):
        await jobs.send(Work(number=21), id="a")
        await bees.drain()

        assert 42 == await jobs.result("a")
        assert 42 == await jobs.result("a", type=int)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None),
        ("text", str),
        (b"bytes", bytes),
        ([1, 2.5, None, "x"], list[Any]),
        ({"a": [True]}, dict[str, list[bool]]),
        (Point(1, 2), Point),
        ((1, "a"), tuple[int, str]),
        (datetime(2030, 1, 1, tzinfo=UTC), datetime),
        (Decimal("1.10"), Decimal),
        (Work("x", 3), Work),
    ],
    ids=repr,
)
async def test_a_result_comes_back_as_the_type_that_is_asked_for(value: object, form: Any) -> None:
    async with at_work(returns(value), policy=HOUR) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert value == await jobs.result("a", type=form)


async def test_a_result_of_another_type_is_an_error_and_not_another_value() -> None:
    async with at_work(returns("many"), policy=HOUR) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        with pytest.raises(bee.DecodeError, match="'a'"):
            await jobs.result("a", type=int)


async def test_what_cannot_be_the_type_of_a_result_is_refused_at_once() -> None:
    async with at_work(double) as (_, jobs):
        with pytest.raises(bee.InvalidOption):
            await jobs.result("a", type=set[int] | list[int])


async def test_waiting_goes_on_until_the_job_has_ended(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(number=4), id="a", delay=20)
        waiting = asyncio.create_task(jobs.result("a"))
        await bees.advance(19)
        assert not waiting.done()
        await bees.advance(1.5)

        assert 8 == await waiting


async def test_who_waits_asks_less_and_less_often(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a", delay=1000)
        waiting = asyncio.create_task(jobs.result("a", timeout=20))
        asked = []
        for seconds in (0.1, 0.9, 10):
            before = bees.broker.calls["get"]
            await bees.advance(seconds)
            asked.append(bees.broker.calls["get"] - before)
        await bees.advance(10)

        assert asked[0] <= 6
        assert asked[1] <= 5
        assert 19 <= asked[2] <= 21
        with pytest.raises(bee.ResultTimeout):
            await waiting


async def test_when_time_is_over_that_is_a_timeout_error_too(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a", delay=1000)
        waiting = asyncio.create_task(jobs.result("a", timeout=30))
        await bees.advance(29.9)
        assert not waiting.done()
        await bees.advance(0.2)

        with pytest.raises(TimeoutError, match="30 s"):
            await waiting
        with pytest.raises(bee.ResultTimeout):
            await jobs.result("a", timeout=0)


async def test_a_job_that_failed_for_good_raises_with_its_reason() -> None:
    async with at_work(fails, policy=HOUR) as (bees, jobs):
        await jobs.send(Work("sums"), id="a")
        await bees.drain()

        with pytest.raises(bee.JobFailed, match="cannot do sums") as caught:
            await jobs.result("a")
        assert "failed" == caught.value.note.reason
        assert "ValueError" in caught.value.note.detail
        assert "a" == caught.value.id


async def test_a_failure_that_is_deleted_is_told_as_long_as_results_are_kept() -> None:
    policy = bee.Policy(keep_result=60, on_error=bee.Delete())
    async with at_work(fails, policy=policy) as (bees, jobs):
        await jobs.send(Work("sums"), id="a")
        await bees.drain()
        with pytest.raises(bee.JobFailed, match="cannot do sums"):
            await jobs.result("a")

        await bees.advance(60)
        with pytest.raises(bee.NoResult):
            await jobs.result("a")


async def test_the_archive_tells_a_failure_even_if_nothing_was_kept() -> None:
    async with at_work(fails) as (bees, jobs):
        await jobs.send(Work("sums"), id="a")
        await bees.drain()

        with pytest.raises(bee.JobFailed, match="cannot do sums"):
            await jobs.result("a")


async def test_a_job_that_is_to_be_repeated_has_not_ended(bee_clock: ManualClock) -> None:
    runs = 0

    async def handle(job: Work) -> int:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise ConnectionError
        return runs

    policy = bee.Policy(keep_result=3600, on_error=bee.Repeat(5))
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        waiting = asyncio.create_task(jobs.result("a"))
        await bees.advance(10)

        assert 3 == await waiting


async def test_a_cancelled_job_raises_as_cancelled(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a", delay=1000)
        waiting = asyncio.create_task(jobs.result("a"))
        await bees.advance(1)
        await jobs.cancel("a")
        await bees.advance(1)

        with pytest.raises(bee.JobFailed) as caught:
            await waiting
        assert "cancelled" == caught.value.note.reason


async def test_an_id_that_nobody_knows_is_not_waited_for() -> None:
    async with at_work(double, policy=HOUR) as (_, jobs):
        with pytest.raises(bee.NoResult, match="'nobody'"):
            await jobs.result("nobody")


async def test_a_success_of_which_nothing_was_kept_is_not_taken_for_none() -> None:
    async with at_work(double, policy=bee.Policy(on_success=bee.Archive())) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        with pytest.raises(bee.NoResult, match="succeeded"):
            await jobs.result("a")


async def test_a_result_is_forgotten_when_its_time_is_over() -> None:
    async with at_work(double, policy=bee.Policy(keep_result=60)) as (bees, jobs):
        await jobs.send(Work(number=1), id="a")
        await bees.drain()
        await bees.advance(59)
        assert 2 == await jobs.result("a")

        await bees.advance(1)
        with pytest.raises(bee.NoResult):
            await jobs.result("a")


async def test_an_id_that_is_used_again_is_waited_for_again(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(number=1), id="a")
        await bees.drain()
        await jobs.send(Work(number=2), id="a", delay=5)
        waiting = asyncio.create_task(jobs.result("a"))
        await bees.advance(6)

        assert 4 == await waiting


async def test_a_job_that_ends_between_two_questions_is_found(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        gate = bees.broker.gate("get", when="after")
        await jobs.send(Work(number=1), id="a", delay=5)
        waiting = asyncio.create_task(jobs.result("a"))
        await gate.reached.wait()
        await bees.advance(5)  # it ends after it was found alive
        gate.open()
        await bees.advance(1)

        assert 2 == await waiting


@pytest.mark.parametrize("verb", ["get", "results"])
async def test_passing_trouble_is_waited_out(verb: str, bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(number=1), id="a")
        await bees.drain()
        bees.broker.fail(verb, bee.BrokerUnavailable("down"), times=3)
        waiting = asyncio.create_task(jobs.result("a"))
        await bees.advance(1)

        assert 2 == await waiting


async def test_trouble_that_lasts_is_the_cause_of_the_timeout(bee_clock: ManualClock) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        bees.broker.fail("get", bee.BrokerUnavailable("down"), times=1000)
        waiting = asyncio.create_task(jobs.result("a", timeout=5))
        await bees.advance(6)

        with pytest.raises(bee.ResultTimeout) as caught:
            await waiting
        assert isinstance(caught.value.__cause__, bee.BrokerUnavailable)


# What cannot be kept.


def ring() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


@pytest.mark.parametrize(
    "value",
    [object(), threading.Lock(), float("nan"), [float("inf")], ring(), {1: {2: object()}}],
    ids=lambda value: type(value).__name__,
)
async def test_a_result_that_is_no_json_does_not_make_a_failure_of_a_success(value: Any) -> None:
    policy = bee.Policy(keep_result=3600, on_success=bee.Archive())
    async with at_work(returns(value), policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert ["Succeeded"] == outcomes(bees)
        assert {"succeeded": 1} == await reasons(bees)
        (event,) = heard(bees, ResultDropped)
        assert ("jobs", "a", "work") == (event.queue, event.id, event.tag)
        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert event.problem == archived.note.detail != ""
        with pytest.raises(bee.NoResult, match="its result"):
            await jobs.result("a")


async def test_a_result_that_is_too_large_is_not_kept_and_says_so() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=HOUR, max_bytes=100)
    jobs.handlers.handle_all(returns("x" * 99))
    async with under_test(hive) as bees:
        await jobs.send(Work(), id="a")
        await bees.drain()

        with pytest.raises(bee.NoResult, match=r"101 bytes.*at most 100"):
            await jobs.result("a")
        assert 1 == len(heard(bees, ResultDropped))


async def test_a_result_that_just_fits_is_kept() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=HOUR, max_bytes=100)
    jobs.handlers.handle_all(returns("x" * 98))
    async with under_test(hive) as bees:
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert "x" * 98 == await jobs.result("a")


async def test_nobody_looks_at_a_result_that_is_not_to_be_kept() -> None:
    async with at_work(returns(object())) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        (event,) = heard(bees, AttemptSettled)
        assert isinstance(event.outcome, Succeeded)
        assert [] == heard(bees, ResultDropped)
        assert {} == await bees.broker.inner.results("jobs", ["a"])


async def test_a_worker_that_has_lost_its_lease_keeps_no_result(bee_clock: ManualClock) -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> str:
        await go_on.wait()
        return "too late"

    policy = bee.Policy(keep_result=3600, timeout=None)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(0)
        await bees.broker.inner.cancel("jobs", ["a"], to=bee.Delete())
        go_on.set()
        await bees.drain()

        assert {} == await bees.broker.inner.results("jobs", ["a"])


async def test_results_of_threads_and_of_other_levels_of_policy_are_kept() -> None:
    def handle(job: Work) -> dict[str, int]:
        return {"number": job.number}

    hive, jobs = hive_for(handle, policy=DEFAULT)
    async with under_test(hive) as bees:
        await jobs.send(Work(number=5), id="kept", policy=HOUR)
        await jobs.send(Work(number=5), id="not")
        await bees.drain()

        assert {"number": 5} == await jobs.result("kept", type=dict[str, int])
        with pytest.raises(bee.NoResult):
            await jobs.result("not")


async def test_a_handler_that_rules_itself_has_no_result() -> None:
    async with at_work(returns(bee.Delete()), policy=HOUR) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        with pytest.raises(bee.JobFailed) as caught:
            await jobs.result("a")
        assert "ruled" == caught.value.note.reason


@pytest.mark.parametrize(
    ("body", "reason"), [(b"no job", "malformed"), (b'{"v":1,"job":{"type":"new"}}', "unknown")]
)
async def test_bytes_that_nobody_can_read_end_as_they_do_and_are_told_so(
    body: bytes, reason: str, bee_clock: ManualClock
) -> None:
    async with at_work(double, policy=HOUR, clock=bee_clock) as (bees, jobs):
        await bees.broker.inner.send("jobs", [bee.Draft("a", body)])
        waiting = asyncio.create_task(jobs.result("a", timeout=3600))
        await bees.advance(1000)

        with pytest.raises(bee.JobFailed) as caught:
            await waiting
        assert reason == caught.value.note.reason


async def test_what_a_shutdown_ended_for_good_is_told_so(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        await asyncio.Event().wait()

    policy = bee.Policy(keep_result=3600, on_interrupt=bee.Delete())
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await bees.stop()

        with pytest.raises(bee.JobFailed) as caught:
            await jobs.result("a")
        assert "interrupted" == caught.value.note.reason


async def test_a_queue_by_hand_waits_by_the_clock_of_the_machine() -> None:
    async with MemoryBroker() as broker:
        queue = bee.Queue(broker, "jobs", Work, policy=HOUR)
        worker = bee.Worker(broker, "jobs", Work, double, policy=HOUR, observers=())
        await queue.send(Work(number=3), id="a")
        waiting = asyncio.create_task(queue.result("a", timeout=5))
        await worker.run(until_empty=True)

        assert 6 == await waiting
