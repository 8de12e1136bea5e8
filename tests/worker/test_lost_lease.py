"""A lease that is lost while the handler runs: it is stopped, and nothing of it is settled."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptLost, AttemptStarted
from bee_core.outcome import Succeeded
from bee_core.testing import HiveUnderTest

from .support import LEASE, Jobs, Work, at_work, counted, heard, live, reasons, settled, until

FOREVER = bee.Policy(timeout=None)


class Handler:
    """Runs until it is told to end; knows how each run ended."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.endings: list[str] = []

    async def __call__(self, job: Work) -> None:
        try:
            await self.go_on.wait()
            self.endings.append("done")
        except asyncio.CancelledError:
            self.endings.append("cancelled")
            raise


def receipt_of(bees: HiveUnderTest, id: str) -> bee.Receipt:
    return next(
        bee.Receipt(event.id, event.token)
        for event in reversed(heard(bees, AttemptStarted))
        if event.id == id
    )


async def steal(bees: HiveUnderTest, id: str) -> bee.Receipt:
    """Let the lease run out at once and take the message over, as another client would."""
    store = bees.broker.inner
    await store.extend("jobs", [receipt_of(bees, id)], duration=0.001)
    await bees.advance(0.002)
    (lease,) = await store.lease("jobs", limit=1, duration=10 * LEASE, holder="thief")
    assert id == lease.receipt.id
    return lease.receipt


async def start(bees: HiveUnderTest, jobs: Jobs, *ids: str) -> None:
    for id in ids:
        await jobs.send(Work(), id=id)
    await bees.clock.settle()


async def test_a_stolen_job_is_stopped_and_its_new_owner_unharmed() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=1) as (bees, jobs):
        await start(bees, jobs, "a")
        receipt = await steal(bees, "a")
        await bees.advance(LEASE / 3)

        assert ["cancelled"] == handler.endings
        assert Counter({"AttemptStarted": 1, "AttemptLost": 1}) == counted(bees)
        assert 0 == bees.broker.calls["settle"]
        assert set() == await bees.broker.inner.settle(
            "jobs", [bee.Settlement(receipt, bee.Delete())]
        )


async def test_a_cancelled_job_is_stopped_when_its_lease_is_next_renewed() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER) as (bees, jobs):
        await start(bees, jobs, "a", "b")

        assert set() == await jobs.cancel("a")
        assert [] == handler.endings

        await bees.advance(LEASE / 3)

        lost = [(event.id, event.outcome, event.certain) for event in heard(bees, AttemptLost)]
        assert ["cancelled"] == handler.endings
        assert [("a", None, True)] == lost
        assert Counter({"cancelled": 1}) == await reasons(bees)

        handler.go_on.set()
        await bees.drain()

        assert Counter({("b", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_the_jobs_of_a_dropped_queue_are_stopped() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER) as (bees, jobs):
        await start(bees, jobs, "a", "b", "c")
        await bees.broker.drop("jobs")
        await bees.advance(LEASE / 3)

        assert ["cancelled"] * 3 == handler.endings
        assert Counter({"AttemptStarted": 3, "AttemptLost": 3}) == counted(bees)
        assert Counter("abc") == Counter(event.id for event in heard(bees, AttemptLost))

        handler.go_on.set()
        await jobs.send(Work(), id="d")
        await bees.drain()

        assert Counter({("d", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_job_that_ends_before_its_loss_is_known_changes_nothing() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=1) as (bees, jobs):
        await start(bees, jobs, "a")
        receipt = await steal(bees, "a")
        handler.go_on.set()
        await bees.clock.settle()

        (lost,) = heard(bees, AttemptLost)
        assert ["done"] == handler.endings
        assert (Succeeded(), True) == (lost.outcome, lost.certain)
        assert Counter() == settled(bees)
        assert set() == await bees.broker.inner.extend("jobs", [receipt], duration=LEASE)


async def test_a_lost_job_frees_its_slot_for_the_next_one() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=1) as (bees, jobs):
        await start(bees, jobs, "a", "b")
        await jobs.cancel("a")
        await bees.advance(LEASE / 3)

        assert ["a", "b"] == bees.runs


async def test_a_lost_job_that_ignores_its_cancellation_is_given_up_and_never_settled() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    async with at_work(handle, policy=FOREVER, concurrency=2) as (bees, jobs):
        await start(bees, jobs, "a")
        await jobs.cancel("a", to=bee.Delete())
        await bees.advance(LEASE)

        expected = Counter({"AttemptStarted": 1, "HandlerStuck": 1, "AttemptLost": 1})
        assert expected == counted(bees)

        go_on.set()
        await bees.clock.settle()

        assert expected == counted(bees)
        assert 0 == bees.broker.calls["settle"]


async def test_a_job_stolen_while_its_settlement_is_retried_is_reported_lost_once() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=1) as (bees, jobs):
        await start(bees, jobs, "a")
        bees.broker.fail("settle", bee.BrokerUnavailable("down"), times=3)
        handler.go_on.set()
        await bees.clock.settle()
        receipt = await steal(bees, "a")
        await bees.advance(LEASE)

        expected = Counter(
            {"AttemptStarted": 1, "AttemptLost": 1, "BrokerTrouble": 1, "BrokerRecovered": 1}
        )
        assert expected == counted(bees)
        assert set() == await bees.broker.inner.extend("jobs", [receipt], duration=LEASE)


async def test_a_job_taken_over_by_its_own_worker_runs_on_under_the_new_token() -> None:
    """The lease runs out unnoticed and this same worker takes the message again."""
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=2) as (bees, jobs):
        await start(bees, jobs, "a")
        old = receipt_of(bees, "a")
        await bees.broker.inner.extend("jobs", [old], duration=0.001)
        await bees.advance(0.002)
        await jobs.send(Work(), id="b", delay=1000)  # wakes the worker, which finds `a` ready
        await bees.clock.settle()
        await bees.advance(LEASE / 3)
        handler.go_on.set()
        await bees.drain()

        assert ["a", "a"] == bees.runs
        assert ["cancelled", "done"] == handler.endings
        assert [old.token] == [event.token for event in heard(bees, AttemptLost)]
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_an_archived_successor_is_not_touched_by_the_old_owner() -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=1) as (bees, jobs):
        await start(bees, jobs, "a")
        await jobs.send(Work("second"), id="a", if_taken=bee.Update())
        await jobs.cancel("a", to=bee.Delete())
        handler.go_on.set()
        await bees.drain()

        assert ["a", "a"] == bees.runs
        assert Counter({"AttemptStarted": 2, "AttemptLost": 1, "AttemptSettled": 1}) == counted(
            bees
        )
        assert 0 == await live(bees)


@pytest.mark.parametrize("extends", [1, 5])
async def test_a_job_many_leases_long_runs_once(extends: int) -> None:
    handler = Handler()
    async with at_work(handler, policy=FOREVER, concurrency=3) as (bees, jobs):
        await start(bees, jobs, "a")
        await bees.advance(extends * LEASE)
        handler.go_on.set()
        await bees.drain()

        assert ["a"] == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_an_idle_worker_does_not_call_the_broker_to_renew_nothing() -> None:
    handler = Handler()
    handler.go_on.set()
    async with at_work(handler) as (bees, jobs):
        await jobs.send(Work())
        await bees.drain()
        await bees.advance(10 * LEASE)

        assert 0 == bees.broker.calls["extend"]


async def test_a_thread_that_loses_its_lease_is_left_alone_and_not_settled() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handle(job: Work) -> None:
        begun.set()
        go_on.wait(5)

    async with at_work(handle, policy=FOREVER, concurrency=2) as (bees, jobs):
        await start(bees, jobs, "a")
        await until(begun.is_set)
        await jobs.cancel("a", to=bee.Delete())
        await bees.advance(LEASE / 3)

        expected = Counter({"AttemptStarted": 1, "HandlerStuck": 1, "AttemptLost": 1})
        assert expected == counted(bees)

        go_on.set()
        await bees.drain()

        assert expected == counted(bees)
