"""Handlers that block the event loop: their leases are kept, and they are reported."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import bee_core as bee
from bee_core.events import AttemptLost, AttemptStarted, LoopBlocked
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, counted, heard, nothing, settled, until

FOREVER = bee.Policy(timeout=None)


async def test_a_handler_that_blocks_the_loop_for_three_leases_runs_once(
    bee_clock: ManualClock,
) -> None:
    async def handle(job: Work) -> None:
        if job.what == "block":
            bee_clock.block(3 * LEASE)
        else:
            await bee_clock.sleep(1)

    async with at_work(handle, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work("neighbour"), id="neighbour")
        await jobs.send(Work("block"), id="block")
        await bees.advance(2 * LEASE)

        assert Counter({"block": 1, "neighbour": 1}) == Counter(bees.runs)
        assert Counter(
            {("block", "Succeeded", "Delete"): 1, ("neighbour", "Succeeded", "Delete"): 1}
        ) == settled(bees)


async def test_a_blocked_loop_is_reported_once_with_the_stack_that_blocks_it(
    bee_clock: ManualClock,
) -> None:
    async def the_culprit(job: Work) -> None:
        bee_clock.block(3 * LEASE)

    async with at_work(the_culprit, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        (blocked,) = heard(bees, LoopBlocked)
        assert ("jobs", ("a",)) == (blocked.queue, blocked.running)
        assert "the_culprit" in blocked.stack


async def test_who_blocks_the_loop_is_named_among_all_that_run(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(1)
        if job.what == "block":
            bee_clock.block(LEASE)
        await bee_clock.sleep(1)

    async with at_work(handle, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work("wait"), id="a")
        await jobs.send(Work("block"), id="b")
        await jobs.send(Work("wait"), id="c")
        await bees.advance(2 * LEASE)

        (blocked,) = heard(bees, LoopBlocked)
        assert ("b", {"a", "b", "c"}) == (blocked.culprit, set(blocked.running))


async def test_the_stack_that_blocked_the_loop_is_in_the_history_of_the_job(
    bee_clock: ManualClock,
) -> None:
    async def the_culprit(job: Work) -> None:
        bee_clock.block(LEASE)
        raise OSError("after all that")

    async with at_work(the_culprit, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        explanation = await jobs.explain("a")
        (episode,) = explanation.history
        assert ("failed", "OSError: after all that") == (episode.reason, episode.summary)
        assert episode.remark is not None
        assert episode.remark.startswith("it blocks the event loop, at\n")
        assert "the_culprit" in episode.remark
        assert "the_culprit" in str(explanation)


async def test_two_blocks_are_reported_twice(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        bee_clock.block(LEASE)
        await bee_clock.sleep(LEASE)
        bee_clock.block(LEASE)

    async with at_work(handle, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(3 * LEASE)
        await bees.advance(2 * LEASE)

        assert 2 == len(heard(bees, LoopBlocked))
        assert Counter({"AttemptStarted": 1, "AttemptSettled": 1}) == counted(bees)


async def test_a_loop_that_answers_is_not_reported(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        for _ in range(100):
            await bee_clock.sleep(LEASE / 10)

    async with at_work(handle, policy=FOREVER, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(11 * LEASE)

        assert [] == heard(bees, LoopBlocked)
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_job_that_blocks_beyond_its_own_deadline_loses_its_lease_in_the_end(
    bee_clock: ManualClock,
) -> None:
    """Another worker gets it, and what the blocked one does afterwards changes nothing."""
    taken: list[bee.Lease] = []

    async def handle(job: Work) -> None:
        bee_clock.block(10 * LEASE)
        taken.extend(await bees.broker.inner.lease("jobs", limit=1, duration=LEASE, holder="other"))

    policy = bee.Policy(timeout=LEASE, on_timeout=bee.Archive())
    async with at_work(handle, policy=policy, clock=bee_clock, concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()

        assert ["a"] == [lease.receipt.id for lease in taken]
        assert Counter() == settled(bees)
        assert 1 == len(heard(bees, AttemptLost))
        assert set() == await bees.broker.inner.settle(
            "jobs", [bee.Settlement(taken[0].receipt, bee.Delete())]
        )


async def test_blocking_within_the_deadline_keeps_the_lease_however_short_it_is(
    bee_clock: ManualClock,
) -> None:
    async def handle(job: Work) -> None:
        bee_clock.block(59)

    policy = bee.Policy(timeout=60)
    async with at_work(handle, policy=policy, clock=bee_clock, lease=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert ["a"] == bees.runs
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_block_in_real_time_keeps_the_lease_too() -> None:
    """On the machine's own clock, with two workers that would gladly take the job over."""
    runs: list[str] = []
    events: list[bee.Event] = []

    async def handle(job: Work) -> None:
        runs.append(job.what)
        time.sleep(0.3)  # noqa: ASYNC251

    broker = MemoryBroker()
    worker = bee.Worker(
        broker, "jobs", Work, handle, lease=0.1, observers=(events.append,), policy=FOREVER
    )
    others: list[str] = []
    over = threading.Event()

    def rival() -> None:
        async def look() -> None:
            async with broker.clone() as own:
                while not over.is_set():
                    leases = await own.lease("jobs", limit=1, duration=1, holder="rival")
                    others.extend(lease.receipt.id for lease in leases)
                    await asyncio.sleep(0.005)

        asyncio.run(look())

    await worker.queue.send(Work("x"), id="a")
    run = asyncio.create_task(worker.run(max_jobs=1))
    await until(lambda: runs)
    thread = threading.Thread(target=rival)
    thread.start()
    await run
    over.set()
    thread.join()
    await broker.aclose()

    assert (["x"], []) == (runs, others)
    assert 0 == len([event for event in events if isinstance(event, AttemptLost)])


async def test_a_loop_that_is_busy_for_a_moment_is_not_reported() -> None:
    events: list[bee.Event] = []

    def slow_log(event: bee.Event) -> None:
        events.append(event)
        if isinstance(event, AttemptStarted):
            time.sleep(0.001)

    worker = bee.Worker(
        MemoryBroker(), "jobs", Work, nothing, concurrency=20, observers=(slow_log,)
    )
    await worker.queue.send_many([Work() for _ in range(60)])
    await worker.run(until_empty=True)

    assert [] == [event for event in events if isinstance(event, LoopBlocked)]
