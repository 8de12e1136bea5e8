"""A hive under test: what `running`, the fixtures and their bees promise to a user's tests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

import pytest

import bee_core as bee
from bee_core.events import WorkerStarted, WorkerStopped
from bee_core.testing import HiveUnderTest, ManualClock, running
from bee_core.testing import hive as hive_module
from bee_memory import MemoryBroker

from .support import LEASE, Work, heard, hive_for, nothing, until

BeeHive = Callable[..., AbstractAsyncContextManager[HiveUnderTest]]


async def test_a_job_sent_an_hour_ahead_runs_when_the_hour_has_passed(bee_hive: BeeHive) -> None:
    hive, jobs = hive_for(nothing)
    async with bee_hive(hive) as bees:
        await jobs.send(Work(), id="a", delay=3600)
        await bees.advance(3599)
        assert [] == bees.runs
        await bees.advance(1)
        assert ["a"] == bees.runs


async def test_the_fixtures_share_one_clock(bee_hive: BeeHive, bee_clock: ManualClock) -> None:
    hive, _ = hive_for(nothing)
    async with bee_hive(hive) as bees:
        assert bee_clock is bees.clock


async def test_the_hive_is_its_old_self_afterwards() -> None:
    own = MemoryBroker()
    hive = bee.Hive(broker=own)
    jobs = hive.queue("jobs", Work)
    jobs.handler(nothing)
    async with running(hive):
        await jobs.send(Work())
    await jobs.send(Work(), id="real")

    assert 1 == (await own.stats("jobs")).ready
    await hive.aclose()


async def test_drain_runs_what_is_ready_and_leaves_what_is_delayed() -> None:
    hive, jobs = hive_for(nothing)
    async with running(hive) as bees:
        await jobs.send(Work("now"))
        await jobs.send(Work("later"), delay=10)
        await bees.drain()

        assert [Work("later")] == await bees.pending(jobs)
        assert [Work("later")] == await bees.pending("jobs")


async def test_pending_jobs_come_in_the_order_they_will_run() -> None:
    hive, jobs = hive_for(nothing)
    async with running(hive, start=False) as bees:
        await jobs.send(Work("third"))
        await jobs.send(Work("last"), delay=10)
        await jobs.send(Work("first"), priority=5)
        await jobs.send(Work("second"), priority=5)

        what = [job.what for job in await bees.pending(jobs)]
        assert ["first", "second", "third", "last"] == what
        assert [] == bees.runs


async def test_more_than_a_page_of_jobs_is_seen() -> None:
    hive, jobs = hive_for(nothing)
    async with running(hive, start=False) as bees:
        await jobs.send_many([Work(number=number) for number in range(250)])

        assert list(range(250)) == [job.number for job in await bees.pending(jobs)]


async def test_archived_jobs_are_seen_decoded_or_not_newest_first() -> None:
    async def fail(job: Work) -> None:
        raise ValueError("no")

    hive, jobs = hive_for(fail)
    async with running(hive) as bees:
        await jobs.send(Work("x"), id="a")
        await bees.drain()
        await bees.advance(1)
        await bees.broker.send("jobs", [bee.Draft("b", b"junk")])
        await bees.drain()

        assert [("b", None), ("a", Work("x"))] == [
            (archived.id, archived.job) for archived in await bees.archived(jobs)
        ]


async def test_a_crash_and_a_start_are_seen_as_such() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    hive, jobs = hive_for(handle)
    async with running(hive) as bees:
        await until(lambda: heard(bees, WorkerStarted))
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await bees.crash()
        go_on.set()
        await bees.start()
        await until(lambda: len(heard(bees, WorkerStarted)) == 2)
        await bees.clock.settle()
        assert ["a"] == bees.runs
        await bees.advance(LEASE)

        assert ["a", "a"] == bees.runs


async def test_the_failure_of_a_test_is_not_hidden_by_the_end_of_its_hive() -> None:
    hive, jobs = hive_for(nothing)
    with pytest.raises(AssertionError, match="the test itself"):
        async with running(hive) as bees:
            await jobs.send(Work())
            await bees.drain()
            raise AssertionError("the test itself")


async def test_a_hive_under_test_is_at_work_when_the_test_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clone = MemoryBroker.clone

    def slow_clone(self: MemoryBroker) -> MemoryBroker:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.02)
        return clone(self)

    monkeypatch.setattr(MemoryBroker, "clone", slow_clone)
    hive, jobs = hive_for(nothing)
    async with running(hive) as bees:
        await jobs.send(Work(), id="a", delay=10)
        await bees.advance(20)
        runs = list(bees.runs)

    assert ["a"] == runs


async def test_a_hive_that_was_stopped_can_be_started_again() -> None:
    hive, jobs = hive_for(nothing)
    async with running(hive) as bees:
        await until(lambda: heard(bees, WorkerStarted))
        hive.stop()
        await until(lambda: heard(bees, WorkerStopped))
        await bees.start()
        await jobs.send(Work(), id="a")
        with suppress(AssertionError):
            await until(lambda: bees.runs, patience=0.3)

        assert ["a"] == bees.runs


async def test_drain_does_not_wait_for_queues_that_nobody_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hive_module, "_PATIENCE", 0.1)
    hive, jobs = hive_for(nothing)
    elsewhere = hive.queue("elsewhere", Work)
    async with running(hive) as bees:
        await jobs.send(Work())
        await elsewhere.send(Work())
        await bees.drain()

        assert [Work()] == await bees.pending(elsewhere)


async def test_drain_says_so_when_a_handler_waits_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive_module, "_PATIENCE", 0.05)
    hive, jobs = hive_for(nothing)
    async with running(hive) as bees:
        await jobs.send(Work())
        bees.broker.fail("settle", bee.BrokerUnavailable("away"))
        with pytest.raises(TimeoutError, match="jobs"):
            await bees.drain()
        await bees.advance(1)
        await bees.drain()


async def test_leaving_with_a_call_held_up_ends_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hive_module, "_PATIENCE", 0.1)
    hive, jobs = hive_for(nothing)
    gates = []

    async def a_test_that_fails() -> None:
        async with running(hive) as bees:
            await until(lambda: heard(bees, WorkerStarted))
            gates.append(bees.broker.gate("lease"))
            await jobs.send(Work())
            await gates[0].reached.wait()
            raise AssertionError("the test itself")

    task = asyncio.create_task(a_test_that_fails())
    await asyncio.wait({task}, timeout=1)
    ended = task.done()
    gates[0].open()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)

    assert ended
    assert isinstance(outcome, AssertionError)
