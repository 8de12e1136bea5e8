"""Whatever a handler raises ends its job, not its worker, and leaves a note that can be read."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

import bee_core as bee
from bee_core.testing import HiveUnderTest
from bee_core.text import DETAIL

from .support import STEADY, Jobs, Work, at_work, counted, settled, until

LONG = 100_000.0


class Mute(Exception):
    """Cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Violent(Exception):
    """Ends the program when it is printed."""

    def __str__(self) -> str:
        sys.exit(3)

    __repr__ = __str__


def cyclic() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def huge_group() -> Exception:
    return ExceptionGroup("many", [ValueError(number) for number in range(1000)])


def deep_group() -> Exception:
    error: Exception = ValueError("leaf")
    for _ in range(200):
        error = ExceptionGroup("deep", [error])
    return error


def long_chain() -> Exception:
    error = ValueError("first")
    for number in range(5000):
        later = ValueError(number)
        later.__cause__ = error
        error = later
    return error


def with_surrogates_and_nul() -> Exception:
    return ValueError("a\0b\ud800c")


def too_deep() -> BaseException:
    def dive() -> None:
        dive()

    try:
        dive()
    except RecursionError as error:
        return error
    raise AssertionError


ERRORS: list[Callable[[], BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    asyncio.CancelledError,
    TimeoutError,
    StopIteration,
    StopAsyncIteration,
    MemoryError,
    BaseException,
    AssertionError,
    Mute,
    Violent,
    cyclic,
    huge_group,
    deep_group,
    long_chain,
    with_surrogates_and_nul,
    too_deep,
    lambda: BaseExceptionGroup("base", [KeyboardInterrupt(), SystemExit()]),
    lambda: bee.IdTaken("jobs", ["x"]),
    lambda: bee.DecodeError("not this one"),
    lambda: bee.WorkerStuck("not really"),
]


async def detail_of(bees: HiveUnderTest, jobs: Jobs) -> str:
    (archived,) = await bees.archived(jobs)
    assert archived.note is not None
    assert "failed" == archived.note.reason
    return archived.note.detail


@pytest.mark.parametrize("error", ERRORS)
async def test_whatever_is_raised_fails_the_job_and_not_the_worker(
    error: Callable[[], BaseException],
) -> None:
    async def handle(job: Work) -> None:
        if job.what == "bad":
            raise error()

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work("bad"), id="bad")
        await jobs.send(Work("good"), id="good")
        await bees.drain()

        assert Counter(
            {("bad", "Failed", "Archive"): 1, ("good", "Succeeded", "Delete"): 1}
        ) == settled(bees)
        detail = await detail_of(bees, jobs)
        assert 0 < len(detail) <= DETAIL + 3
        assert detail == detail.encode().decode()
        assert "\0" not in detail


@pytest.mark.parametrize("error", [error for error in ERRORS if error not in (Mute, Violent)])
async def test_whatever_is_raised_in_a_thread_fails_the_job_and_not_the_worker(
    error: Callable[[], BaseException],
) -> None:
    def handle(job: Work) -> None:
        if job.what == "bad":
            raise error()

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work("bad"), id="bad")
        await jobs.send(Work("good"), id="good")
        await bees.drain()

        assert Counter(
            {("bad", "Failed", "Archive"): 1, ("good", "Succeeded", "Delete"): 1}
        ) == settled(bees)


async def test_an_error_that_cannot_be_printed_ends_a_run_in_a_thread() -> None:
    def handle(job: Work) -> None:
        raise Mute

    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    async with at_work(handle, concurrency=2) as (bees, jobs):
        await jobs.send(Work(), id="a")
        with suppress(AssertionError):
            await until(lambda: complaints or settled(bees))
        await bees.crash()

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)


async def test_a_timeout_error_of_the_handlers_own_is_a_failure() -> None:
    async def handle(job: Work) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    policy = bee.Policy(on_error=bee.Archive(), on_timeout=bee.Repeat(None))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)


async def test_awaiting_a_task_that_was_cancelled_is_a_failure() -> None:
    async def handle(job: Work) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)


async def test_a_permanent_error_ends_repeats_at_once() -> None:
    class Hopeless(bee.PermanentError):
        pass

    async def handle(job: Work) -> None:
        raise Hopeless("never")

    policy = bee.Policy(on_error=bee.Repeat(5, otherwise=bee.Delete()))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        assert Counter({("a", "Failed", "Delete"): 1}) == settled(bees)


async def test_an_error_marked_permanent_ends_repeats_at_once() -> None:
    class Marked(Exception):
        permanent = True

    async def handle(job: Work) -> None:
        raise Marked

    async with at_work(handle, policy=bee.Policy(on_error=bee.Repeat(None))) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)


async def test_an_error_whose_attributes_raise_fails_the_job_and_not_the_worker() -> None:
    class Hostile(Exception):
        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    async def handle(job: Work) -> None:
        if job.what == "bad":
            raise Hostile

    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work("bad"), id="bad")
        await jobs.send(Work("good"), id="good")
        await bees.clock.settle()
        found, runs = settled(bees), bees.runs
        await bees.crash()

    assert [] == complaints
    assert ["bad", "good"] == runs
    assert Counter({("bad", "Failed", "Archive"): 1, ("good", "Succeeded", "Delete"): 1}) == found


@pytest.mark.parametrize("delay", [-1.0, float("nan"), "soon"])
@pytest.mark.parametrize("kind", ["retry", "snooze"])
async def test_an_impossible_delay_fails_the_job_and_not_the_worker(
    kind: str, delay: object
) -> None:
    class Again(bee.Retry):
        after = delay  # type: ignore[assignment]

        def __init__(self) -> None:
            Exception.__init__(self, "again")

    class Later(bee.Snooze):
        def __init__(self) -> None:
            Exception.__init__(self, "later")
            self.delay = delay  # type: ignore[assignment]

    async def handle(job: Work) -> None:
        raise Again if kind == "retry" else Later

    loop = asyncio.get_running_loop()
    complaints: list[object] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
    async with at_work(handle, policy=bee.Policy(on_error=bee.Repeat(1))) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        found = counted(bees)
        await bees.crash()

    assert [] == complaints
    assert Counter({"AttemptStarted": 1, "AttemptSettled": 1}) == found


async def test_the_note_of_a_large_group_of_errors_is_written_in_no_time() -> None:
    def error(number: int) -> Exception:
        try:
            raise ValueError(number)
        except ValueError as raised:
            return raised

    group = ExceptionGroup("many", [error(number) for number in range(50_000)])

    async def handle(job: Work) -> None:
        raise group

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work())
        before = time.perf_counter()
        await bees.drain()
        taken = time.perf_counter() - before

    assert taken < 0.25


async def test_repeats_of_a_raising_job_leave_no_threads_behind() -> None:
    def handle(job: Work) -> None:
        raise StopIteration

    policy = bee.Policy(on_error=bee.Repeat(20), backoff=STEADY)
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(21):
            await bees.drain()
            await bees.advance(300)

        threads = [t for t in threading.enumerate() if t.name.startswith("bee:jobs:")]
        assert ["a"] * 21 == bees.runs
        assert len(threads) <= 2
