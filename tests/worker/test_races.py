"""Two things at the same moment, in every order that the event loop could choose."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptLost, AttemptSettled, WorkerStopped
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

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

FOREVER = bee.Policy(timeout=None, on_stall=bee.Repeat(None))


class Ending:
    """A handler that ends when told, and remembers that it returned."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.returned = 0

    async def __call__(self, job: Work) -> None:
        await self.go_on.wait()
        self.returned += 1


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("lead", range(-6, 7))
async def test_a_job_that_has_returned_is_not_given_back_by_a_stop(
    lead: int, bee_clock: ManualClock
) -> None:
    handler = Ending()
    async with at_work(handler, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        if lead < 0:
            bees.hive.stop(grace=0)
            await turns(-lead)
            handler.go_on.set()
        else:
            handler.go_on.set()
            await turns(lead)
            bees.hive.stop(grace=0)
        await until(lambda: heard(bees, WorkerStopped))

        (event,) = heard(bees, AttemptSettled)
        expected = "Succeeded" if handler.returned else "Interrupted"
        assert expected == type(event.outcome).__name__


@pytest.mark.parametrize("lead", range(12))
async def test_a_job_that_has_returned_does_not_time_out(lead: int, bee_clock: ManualClock) -> None:
    handler = Ending()
    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    async with at_work(handler, clock=bee_clock, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(9)
        advancing = asyncio.create_task(bees.advance(1))
        await turns(lead)
        handler.go_on.set()
        await advancing

        (event,) = heard(bees, AttemptSettled)
        expected = "Succeeded" if handler.returned else "TimedOut"
        assert expected == type(event.outcome).__name__


@pytest.mark.parametrize("lead", range(8))
async def test_a_job_lost_and_ended_in_the_same_moment_is_reported_once(
    lead: int, bee_clock: ManualClock
) -> None:
    handler = Ending()
    async with at_work(handler, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await jobs.cancel("a", to=bee.Delete())
        advancing = asyncio.create_task(bees.advance(LEASE / 3))
        await turns(lead)
        handler.go_on.set()
        await advancing
        await bees.clock.settle()

        assert Counter({"AttemptStarted": 1, "AttemptLost": 1}) == counted(bees)


@pytest.mark.parametrize("lead", range(8))
async def test_a_job_sent_at_the_moment_a_worker_falls_asleep_is_not_overlooked(
    lead: int, bee_clock: ManualClock
) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        for number in range(5):
            await jobs.send(Work(), id=f"first-{number}")
            await turns(lead)
            await jobs.send(Work(), id=f"second-{number}")
            await bees.clock.settle()

        assert 10 == len(settled(bees))


@pytest.mark.parametrize("lead", range(10))
async def test_a_stop_at_any_moment_of_a_job_loses_nothing(
    lead: int, bee_clock: ManualClock
) -> None:
    policy = bee.Policy(on_success=bee.Archive())
    async with at_work(nothing, clock=bee_clock, policy=policy) as (bees, jobs):
        for number in range(4):
            await jobs.send(Work(), id=str(number))
        await turns(lead)
        await bees.stop()
        await begin(bees)
        await bees.drain()

        assert (0, Counter({"succeeded": 4})) == (await live(bees), await reasons(bees))


@pytest.mark.parametrize("lead", range(10))
async def test_a_crash_at_any_moment_of_a_job_loses_nothing(
    lead: int, bee_clock: ManualClock
) -> None:
    policy = bee.Policy(on_success=bee.Archive())
    async with at_work(nothing, clock=bee_clock, policy=policy) as (bees, jobs):
        for number in range(4):
            await jobs.send(Work(), id=str(number))
        await turns(lead)
        await bees.crash()
        await begin(bees)
        await bees.advance(LEASE)

        assert (0, Counter({"succeeded": 4})) == (await live(bees), await reasons(bees))


@pytest.mark.parametrize("lead", range(8))
async def test_until_empty_never_misses_the_end_of_its_last_job(
    lead: int, bee_clock: ManualClock
) -> None:
    """With a poll so long that a wake-up that is missed would show."""
    handler = Ending()
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(
        broker, "jobs", Work, handler, clock=bee_clock, poll=1e6, observers=(), policy=FOREVER
    )
    await worker.queue.send(Work())
    run = asyncio.create_task(worker.run(until_empty=True))
    await until(lambda: broker.calls["lease"])
    await turns(lead)
    handler.go_on.set()
    await asyncio.wait({run}, timeout=1)
    ended = run.done()
    worker.stop(grace=0)
    await run

    assert ended


async def test_a_slow_lease_that_is_answered_after_it_ran_out_does_no_harm(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        await bees.advance(2 * LEASE)
        (lease,) = await bees.broker.inner.lease("jobs", limit=1, duration=LEASE, holder="other")
        gate.open()
        await bees.clock.settle()

        assert 1 == len(heard(bees, AttemptLost))
        assert set() == await bees.broker.inner.settle(
            "jobs", [bee.Settlement(lease.receipt, bee.Delete())]
        )


@pytest.mark.parametrize("seed", range(25))
async def test_a_run_with_faults_of_all_kinds_ends_with_every_job_accounted_for(
    seed: int, bee_clock: ManualClock
) -> None:
    """Random jobs, faults, crashes and stops. Then the faults end, and so must every job."""
    chance = random.Random(seed)
    starts: Counter[str] = Counter()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> object:
        starts[delivery.id] += 1
        what = chance.choice(["", "", "sleep", "long", "fail", "snooze", "then", "swallow"])
        if what == "fail":
            raise ValueError("no")
        if what == "snooze":
            raise bee.Snooze(chance.random() * 20)
        if what == "then" and job.number:
            delivery.then(Work(number=0), id=f"{delivery.id}+")
        if what in ("sleep", "long", "swallow"):
            try:
                await bee_clock.sleep(chance.random() * (100 if what == "long" else 5))
            except asyncio.CancelledError:
                if what != "swallow":
                    raise
        return None

    errors = [bee.BrokerUnavailable("x"), bee.OutcomeUnknown("x"), OSError("x"), RuntimeError("x")]
    policy = bee.Policy(
        timeout=60,
        on_success=bee.Archive(),
        on_error=bee.Repeat(None),
        on_timeout=bee.Repeat(None),
        on_stall=bee.Repeat(None),
    )
    async with at_work(handle, clock=bee_clock, policy=policy, concurrency=3) as (bees, jobs):
        for number in range(15):
            await jobs.send(Work(number=number % 3), id=str(number), delay=chance.random() * 20)
        for _ in range(25):
            verb = chance.choice(["lease", "settle", "extend", "wait"])
            when = chance.choice(["before", "after"])
            times = chance.choice([1, 1, 2, 10])
            error = chance.choice(errors)
            bees.broker.fail(verb, error, when=when, times=times)  # type: ignore[arg-type]
            await bees.advance(chance.random() * 15)
            match chance.choice(["", "", "", "crash", "stop", "down"]):
                case "crash":
                    await bees.crash()
                    await begin(bees)
                case "stop":
                    await bees.stop()
                    await begin(bees)
                case "down":
                    bees.broker.go_down(bee.BrokerUnavailable("away"))
                    await bees.advance(chance.random() * 50)
                    bees.broker.come_back()
                case _:
                    pass
        for faults in bees.broker._script.faults.values():
            faults.clear()
        await bees.advance(20_000)

        assert {str(number) for number in range(15)} <= set(starts)
        assert (0, Counter({"succeeded": len(starts)})) == (await live(bees), await reasons(bees))
        receipts = [(event.id, event.token) for event in heard(bees, AttemptSettled)]
        assert len(set(receipts)) == len(receipts)
        terminal = Counter(
            event.id
            for event in heard(bees, AttemptSettled)
            if isinstance(event.disposition, bee.Archive)
        )
        assert set(terminal.values()) <= {1}


async def test_a_worker_that_is_killed_as_a_settlement_is_tried_again_settles_nothing(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock, policy=FOREVER) as (bees, jobs):
        bees.broker.fail("settle", bee.BrokerUnavailable("no answer"), times=1)
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        assert 1 == bees.broker.calls["settle"]

        await bees.crash()

        assert 1 == bees.broker.calls["settle"]
        assert 1 == await live(bees)
