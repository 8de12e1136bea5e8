"""Where a policy comes from, what the counters count, and what the archive says afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.testing import HiveUnderTest, ManualClock

from .support import LEASE, STEADY, Work, at_work, begin, heard, nothing, settled, under_test

LONG = 100_000.0


class Plain(bee.Job):
    """Says nothing about its policy."""


class Stubborn(bee.Job, policy=bee.Policy(on_error=bee.Repeat(2))):
    """Asks to be repeated twice."""


async def fail(job: object) -> None:
    raise ValueError("no")


async def hang(job: object) -> None:
    await asyncio.Event().wait()


async def counters_of(bees: HiveUnderTest, id: str) -> bee.Counters:
    stored = await bees.broker.inner.get("jobs", id)
    assert stored is not None
    return stored.counters


async def test_the_send_outranks_the_class_which_outranks_the_queue() -> None:
    hive = bee.Hive("memory://", policy=bee.Policy(on_error=bee.Repeat(9)))
    jobs = hive.queue("jobs", Plain | Stubborn, policy=bee.Policy(on_error=bee.Repeat(1)))
    jobs.handler(fail)
    async with under_test(hive) as bees:
        await jobs.send(Plain(), id="queue")
        await jobs.send(Stubborn(), id="class")
        await jobs.send(Stubborn(), id="send", policy=bee.Policy(on_error=bee.Repeat(3)))
        await bees.advance(LONG)

        assert Counter({"queue": 2, "class": 3, "send": 4}) == Counter(bees.runs)


async def test_a_queue_without_a_policy_has_that_of_its_hive() -> None:
    hive = bee.Hive("memory://", policy=bee.Policy(on_error=bee.Repeat(4)))
    jobs = hive.queue("jobs", Plain)
    jobs.handler(fail)
    async with under_test(hive) as bees:
        await jobs.send(Plain(), id="a")
        await bees.advance(LONG)

        assert ["a"] * 5 == bees.runs


async def test_what_the_send_leaves_open_is_filled_from_class_and_queue() -> None:
    policy = bee.Policy(backoff=STEADY, on_success=bee.Archive())
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Stubborn, policy=policy)
    tries: list[int] = []

    @jobs.handler
    async def handle(job: Stubborn, delivery: bee.Delivery[Stubborn]) -> None:
        tries.append(delivery.attempt)
        if delivery.attempt < 3:
            raise ValueError("no")

    async with under_test(hive) as bees:
        await jobs.send(Stubborn(), policy=bee.Policy(timeout=5))
        await bees.advance(2 + 4)

        assert [1, 2, 3] == tries
        assert ["succeeded"] == [job.note.reason for job in await bees.archived(jobs) if job.note]


async def test_a_timeout_sent_with_one_job_holds_for_that_job_alone() -> None:
    policy = bee.Policy(timeout=100, on_timeout=bee.Archive())
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="slow")
        await jobs.send(Work(), id="fast", policy=bee.Policy(timeout=0.5))
        await bees.advance(1)

        assert Counter({("fast", "TimedOut", "Archive"): 1}) == settled(bees)

        await bees.advance(100)

        assert {("fast", "TimedOut", "Archive"): 1, ("slow", "TimedOut", "Archive"): 1} == settled(
            bees
        )


async def test_each_limit_looks_at_its_own_counter(bee_clock: ManualClock) -> None:
    """Two errors, two timeouts, two stalls, two interrupts, with one repeat less than would sum."""
    script = ["error", "hang", "hang", "hang", "error", "hang", "hang", "hang", "done"]

    async def handle(job: Work) -> None:
        step = script.pop(0)
        if step == "error":
            raise ValueError("no")
        if step == "hang":
            await asyncio.Event().wait()

    two = bee.Repeat(2)
    policy = bee.Policy(
        timeout=10,
        on_error=two,
        on_timeout=two,
        on_stall=two,
        on_success=bee.Archive(),
        backoff=bee.Backoff(min=1, factor=1, max=1, jitter=0),
    )
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(2):
            await bees.advance(1)  # an error, then it hangs
            await bees.advance(11)  # it times out, then hangs again
            await bees.crash()
            await begin(bees)
            await bees.advance(LEASE)  # it has stalled, then hangs
            await bees.stop()
            await begin(bees)

        expected = bee.Counters(deliveries=9, errors=2, timeouts=2, stalls=2, releases=2)
        assert [] == script
        assert expected == await counters_of(bees, "a")
        assert "succeeded" == (await bees.archived(jobs))[0].note.reason  # type: ignore[union-attr]


async def test_being_shut_down_ever_so_often_costs_a_job_nothing() -> None:
    policy = bee.Policy(timeout=None, on_error=bee.Archive(), on_stall=bee.Archive())
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        for _ in range(10):
            await bees.stop()
            await begin(bees)

        expected = bee.Counters(deliveries=11, releases=10)
        assert ["a"] * 11 == bees.runs
        assert expected == await counters_of(bees, "a")
        assert [1] * 10 == [event.attempt for event in heard(bees, AttemptSettled)]


async def test_the_archive_keeps_the_error_with_its_traceback() -> None:
    async with at_work(fail) as (bees, jobs):
        await jobs.send(Work("x"), id="a")
        await bees.drain()

        (archived,) = await bees.archived(jobs)
        note = archived.note
        assert note is not None
        assert ("a", Work("x"), "failed") == (archived.id, archived.job, note.reason)
        assert "ValueError: no" == note.detail.rstrip().splitlines()[-1]
        assert "in fail" in note.detail


async def test_the_archive_says_after_how_long_a_job_was_stopped() -> None:
    policy = bee.Policy(timeout=2.5, on_timeout=bee.Archive())
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(3)

        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "timed_out" == archived.note.reason
        assert archived.note.detail.startswith("stopped after 2.5 s, at\n")
        assert "in hang" in archived.note.detail
        assert bee.Counters(deliveries=1, timeouts=1) == archived.counters


async def test_a_repeated_job_carries_the_note_of_its_last_run() -> None:
    policy = bee.Policy(on_error=bee.Repeat(1))
    async with at_work(fail, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        stored = await bees.broker.inner.get("jobs", "a")
        assert stored is not None
        assert stored.note is not None
        assert (bee.State.DELAYED, "failed") == (stored.state, stored.note.reason)


async def test_a_changed_queue_policy_applies_to_jobs_that_wait_already() -> None:
    generous = bee.Hive("memory://")
    jobs = generous.queue("jobs", Plain, policy=bee.Policy(on_error=bee.Repeat(5)))
    jobs.handler(fail)
    async with under_test(generous) as bees:
        await jobs.send(Plain(), id="a")
        await bees.drain()
        await bees.stop()
        jobs.policy = bee.Policy(on_error=bee.Archive())
        await begin(bees)
        await bees.advance(LONG)

        assert ["a", "a"] == bees.runs


async def test_a_policy_that_cannot_be_read_ends_in_the_archive_and_not_in_the_worker() -> None:
    async with at_work(nothing) as (bees, jobs):
        draft = jobs.draft(Work(), id="bad")
        torn = bee.Draft("bad", draft.body, headers={"bee-policy": '{"timeout": "soon"'})
        await bees.broker.send("jobs", [torn])
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert Counter(
            {("bad", "Malformed", "Archive"): 1, ("good", "Succeeded", "Delete"): 1}
        ) == settled(bees)
        assert ["good"] == bees.runs
