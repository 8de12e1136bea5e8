"""Plain handlers run in threads: what they see, and what becomes of them when they must stop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, HandlerStuck, WorkerStopped
from bee_core.outcome import Succeeded
from bee_core.testing import ManualClock

from .support import STEADY, Work, at_work, begin, counted, heard, live, settled, until

POLICY = bee.Policy(timeout=10, on_timeout=bee.Archive())


class Slow:
    """A plain handler that ends when it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.ended = threading.Semaphore(0)

    def __call__(self, job: Work) -> str:
        self.begun.release()
        self.go_on.wait(10)
        self.ended.release()
        return "late"

    async def has_begun(self) -> None:
        await until(lambda: self.begun.acquire(blocking=False))

    async def has_ended(self) -> None:
        await until(lambda: self.ended.acquire(blocking=False))


@contextmanager
def slow() -> Iterator[Slow]:
    handler = Slow()
    try:
        yield handler
    finally:
        handler.go_on.set()


async def test_a_plain_handler_runs_in_a_thread_of_its_own() -> None:
    seen: list[int] = []

    def handle(job: Work) -> str:
        seen.append(threading.get_ident())
        return job.what

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work("x"), id="a")
        await bees.drain()

        (event,) = heard(bees, AttemptSettled)
        assert Succeeded("x") == event.outcome
        assert threading.get_ident() not in seen


async def test_a_thread_sees_the_context_of_the_program_and_changes_only_its_own() -> None:
    variable = contextvars.ContextVar("variable", default="nothing")
    variable.set("set before the worker")
    seen: list[str] = []

    def handle(job: Work) -> None:
        seen.append(variable.get())
        variable.set("set by a job")

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work())
        await jobs.send(Work())
        await bees.drain()

    assert ["set before the worker"] * 2 == seen


async def test_a_plain_handler_gets_its_delivery_and_may_send_what_follows() -> None:
    def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.number:
            delivery.then(Work(number=job.number - 1), id=f"after-{delivery.id}")

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(number=2), id="a")
        await bees.drain()

        assert ["a", "after-a", "after-after-a"] == bees.runs


async def test_a_thread_that_runs_over_is_left_behind_and_its_job_seen_to() -> None:
    with slow() as handler:
        async with at_work(handler, policy=POLICY, concurrency=2) as (bees, jobs):
            await jobs.send(Work(), id="a")
            await handler.has_begun()
            await bees.advance(10)

            expected = Counter({"AttemptStarted": 1, "HandlerStuck": 1, "AttemptSettled": 1})
            assert expected == counted(bees)
            assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)

            handler.go_on.set()
            await handler.has_ended()
            await bees.drain()

            assert expected == counted(bees)
            assert 0 == await live(bees)


async def test_the_slot_of_a_thread_left_behind_is_used_again() -> None:
    with slow() as handler:

        def handle(job: Work) -> None:
            if job.what == "slow":
                handler(job)

        async with at_work(handle, policy=POLICY, concurrency=2) as (bees, jobs):
            await jobs.send(Work("slow"), id="slow")
            await handler.has_begun()
            await bees.advance(10)
            for number in range(10):
                await jobs.send(Work(), id=str(number))
            await bees.drain()

            assert 10 == sum(o == "Succeeded" for _, o, _ in settled(bees).elements())


async def test_threads_that_come_back_are_no_longer_counted_as_stuck() -> None:
    with slow() as handler:
        async with at_work(handler, policy=POLICY, concurrency=2) as (bees, jobs):
            for _ in range(4):
                handler.go_on.clear()
                await jobs.send(Work())
                await handler.has_begun()
                await bees.advance(10)
                handler.go_on.set()
                await handler.has_ended()
                await until(lambda: not [t for t in asyncio.all_tasks() if "bee:jobs" in str(t)])
                await asyncio.sleep(0.005)

            assert [1] * 4 == [event.stuck for event in heard(bees, HandlerStuck)]
            await bees.stop()
            assert [0] == [event.stuck for event in heard(bees, WorkerStopped)]


async def test_as_many_threads_left_behind_as_slots_end_the_worker() -> None:
    with slow() as handler, pytest.raises(bee.WorkerStuck):
        async with at_work(handler, policy=POLICY, concurrency=2) as (bees, jobs):
            await jobs.send(Work())
            await jobs.send(Work())
            await handler.has_begun()
            await handler.has_begun()
            await bees.advance(10)

            assert 2 == len(heard(bees, HandlerStuck))


async def test_threads_are_used_again_and_never_many_more_than_slots() -> None:
    def handle(job: Work) -> None: ...

    async with at_work(handle, concurrency=3) as (bees, jobs):
        for _ in range(5):
            await jobs.send_many([Work() for _ in range(40)])
            await bees.drain()

        threads = [t.name for t in threading.enumerate() if t.name.startswith("bee:jobs:")]
        assert 200 == len(bees.runs)
        assert len(threads) <= 6


async def test_no_more_threads_run_handlers_at_once_than_there_are_slots() -> None:
    lock = threading.Lock()
    now = most = 0

    def handle(job: Work) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.001)
        with lock:
            now -= 1

    async with at_work(handle, concurrency=4) as (bees, jobs):
        await jobs.send_many([Work() for _ in range(60)])
        await bees.drain()

    assert 4 == most


async def test_a_thread_interrupted_at_shutdown_gives_its_job_back(bee_clock: ManualClock) -> None:
    with slow() as handler:
        policy = bee.Policy(timeout=None)
        async with at_work(handler, policy=policy, concurrency=2, clock=bee_clock) as (bees, jobs):
            await jobs.send(Work(), id="a")
            await handler.has_begun()
            await bees.stop()

            assert Counter({("a", "Interrupted", "Reschedule"): 1}) == settled(bees)
            assert [1] == [event.stuck for event in heard(bees, WorkerStopped)]

            handler.go_on.set()
            await begin(bees)
            await bees.drain()

            assert ["a", "a"] == bees.runs


async def test_shutting_down_with_every_thread_busy_is_an_ordinary_shutdown() -> None:
    with slow() as handler:
        async with at_work(handler, policy=bee.Policy(timeout=None), concurrency=1) as (bees, jobs):
            await jobs.send(Work(), id="a")
            await handler.has_begun()
            await bees.stop()

            assert Counter({("a", "Interrupted", "Reschedule"): 1}) == settled(bees)


async def test_a_thread_that_ends_within_the_grace_is_waited_for(bee_clock: ManualClock) -> None:
    with slow() as handler:
        policy = bee.Policy(timeout=None)
        async with at_work(handler, policy=policy, clock=bee_clock) as (bees, jobs):
            await jobs.send(Work(), id="a")
            await handler.has_begun()
            bees.hive.stop(grace=20)
            await bees.advance(19)
            handler.go_on.set()
            await until(lambda: heard(bees, WorkerStopped))

            assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_repeats_of_a_thread_that_runs_over_are_counted_as_timeouts() -> None:
    with slow() as handler:
        policy = bee.Policy(timeout=10, on_timeout=bee.Repeat(2), backoff=STEADY)
        async with at_work(handler, policy=policy, concurrency=9) as (bees, jobs):
            await jobs.send(Work(), id="a")
            for gap in (2, 4, 8):
                await handler.has_begun()
                await bees.advance(10 + gap)

            (archived,) = await bees.archived(jobs)
            assert bee.Counters(deliveries=3, timeouts=3) == archived.counters
            assert [1, 2, 3] == [event.stuck for event in heard(bees, HandlerStuck)]


async def test_a_thread_whose_worker_was_killed_reports_to_nobody() -> None:
    with slow() as handler:
        async with at_work(handler, policy=POLICY, concurrency=2) as (bees, jobs):
            await jobs.send(Work(), id="a")
            await handler.has_begun()
            await bees.crash()
            handler.go_on.set()
            await handler.has_ended()

            assert Counter() == settled(bees)
            assert 1 == await live(bees)


async def test_a_thread_that_cannot_be_had_fails_the_job_and_not_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def handle(job: Work) -> str:
        return job.what

    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name.startswith("bee:jobs"):
            raise RuntimeError("can't start new thread")
        start(self)

    policy = bee.Policy(on_error=bee.Repeat(1), backoff=STEADY)
    async with at_work(handle, policy=policy) as (bees, jobs):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        await jobs.send(Work(), id="a")
        await bees.drain()
        monkeypatch.undo()
        await bees.advance(2)
        await bees.drain()

        assert Counter({("a", "Failed", "Reschedule"): 1, ("a", "Succeeded", "Delete"): 1}) == (
            settled(bees)
        )
