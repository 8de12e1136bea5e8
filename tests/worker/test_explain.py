"""Why a job is not running: a typed answer for each reason there is."""

from __future__ import annotations

import asyncio

import pytest

import bee_core as bee
from bee_core.explain import (
    Archived,
    Awaiting,
    Ended,
    InLine,
    KeyHeld,
    NotDue,
    NotFound,
    NoWorker,
    Paused,
    Poisoned,
    Running,
    Stalled,
    UnknownKind,
)
from bee_core.presence import EVERY, HOLDS
from bee_core.testing import ManualClock, running
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, hive_for, nothing

ONCE = bee.Policy(on_error=bee.Archive())
AGAIN = bee.Policy(on_error=bee.Repeat(1, backoff=bee.Backoff(min=60, jitter=0)))


async def wait_for_ever(job: Work) -> None:
    await asyncio.Event().wait()


async def fail(job: Work) -> None:
    raise OSError("disk full")


async def test_a_job_that_runs_is_explained_by_who_has_it_since_when() -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        delivery.progress("half")
        await asyncio.Event().wait()

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(2)

        why = (await jobs.explain("a")).why

        (worker,) = await bees.broker.workers("jobs")
        assert isinstance(why, Running)
        assert (worker.name, "half") == (why.holder, why.progress)
        assert why.since < why.until


async def test_a_job_whose_worker_died_waits_for_the_next_one() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(HOLDS - 3)  # so that its announcement outlasts its lease
        await bees.crash()
        before = (await jobs.explain("a")).why
        await bees.broker.announce("jobs", "another", about="", duration=1000)
        await bees.advance(LEASE + 1)

        why = (await jobs.explain("a")).why

        assert isinstance(before, Running)
        assert isinstance(why, Stalled)
        assert before.holder == why.holder


async def test_a_delayed_job_is_not_due() -> None:
    async with at_work(nothing) as (_, jobs):
        await jobs.send(Work(), id="a", delay=3600)

        explanation = await jobs.explain("a")

        assert explanation.stored is not None
        assert NotDue(explanation.stored.due_at) == explanation.why


async def test_a_repeated_job_is_not_due_because_it_failed() -> None:
    async with at_work(fail, policy=AGAIN) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        explanation = await jobs.explain("a")

        assert isinstance(explanation.why, NotDue)
        assert explanation.why.note is not None
        assert "failed" == explanation.why.note.reason
        assert ["OSError: disk full"] == [one.summary for one in explanation.history]
        assert "OSError: disk full" in str(explanation)


async def test_nobody_works_on_a_queue_whose_workers_have_left() -> None:
    async with at_work(nothing) as (bees, jobs):
        await bees.stop()
        await jobs.send(Work(), id="a")

        assert NoWorker() == (await jobs.explain("a")).why


async def test_a_worker_that_died_is_missed_when_its_announcement_is_over() -> None:
    async with at_work(nothing) as (bees, jobs):
        await bees.crash()
        await jobs.send(Work(), id="a")
        soon = (await jobs.explain("a")).why
        await bees.advance(HOLDS)

        assert isinstance(soon, InLine)
        assert NoWorker() == (await jobs.explain("a")).why


async def test_a_worker_that_lives_goes_on_announcing_itself() -> None:
    async with at_work(nothing) as (bees, _):
        (before,) = await bees.broker.workers("jobs")
        await bees.advance(10 * EVERY)

        (after,) = await bees.broker.workers("jobs")

        assert before.since == after.since
        assert after.until is not None
        assert before.until is not None
        assert after.until - before.until >= 9 * EVERY


async def test_a_paused_queue_explains_everything_in_it() -> None:
    async with at_work(nothing) as (bees, jobs):
        await bees.broker.pause("jobs")
        await jobs.send(Work(), id="a")

        assert Paused() == (await jobs.explain("a")).why


async def test_a_job_waits_for_the_one_that_holds_its_key() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a", key="ada")
        await jobs.send(Work(), id="b", key="ada")
        await bees.advance(1)

        assert KeyHeld("ada", ("a",)) == (await jobs.explain("b")).why


async def test_a_kind_that_no_worker_knows_waits_for_one() -> None:
    async with at_work(nothing) as (bees, jobs):
        body = b'{"v":1,"job":{"type":"from_the_future"}}'
        await bees.broker.send("jobs", [bee.Draft("a", body)])
        await bees.drain()
        sent_back = (await jobs.explain("a")).why
        await bees.broker.pause("jobs")
        await bees.advance(100)
        await bees.broker.send("jobs", [bee.Draft("b", body)])
        paused = (await jobs.explain("b")).why

        assert isinstance(sent_back, UnknownKind)
        assert ("from_the_future", True) == (sent_back.kind, sent_back.until is not None)
        assert Paused() == paused


async def test_a_kind_that_no_worker_knows_is_told_before_one_has_met_it() -> None:
    async with at_work(wait_for_ever, concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        body = b'{"v":1,"job":{"type":"from_the_future"}}'
        await bees.broker.send("jobs", [bee.Draft("b", body)])

        assert UnknownKind("from_the_future") == (await jobs.explain("b")).why


async def test_a_ready_job_has_its_turn_when_a_slot_is_free() -> None:
    async with at_work(wait_for_ever, concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await jobs.send(Work(), id="b")

        why = (await jobs.explain("b")).why

        assert isinstance(why, InLine)
        assert 1 == why.workers


async def test_a_group_waits_for_those_that_have_not_ended() -> None:
    async def handle(job: Work) -> None:
        if job.what == "slow":
            await asyncio.Event().wait()

    async with at_work(handle) as (bees, jobs):
        group = await jobs.group([Work("slow"), Work("fast"), Work("fast")], then=Work("gather"))
        await bees.advance(1)

        why = (await jobs.explain(group.id)).why

        assert isinstance(why, Awaiting)
        assert (3, 2) == (why.reports, why.heard)


async def test_a_job_that_has_gathered_and_failed_waits_for_its_repeat() -> None:
    async def handle(job: Work) -> None:
        if job.what == "gather":
            raise ValueError("no")

    async with at_work(handle, policy=AGAIN) as (bees, jobs):
        group = await jobs.group([Work("a"), Work("b")], then=Work("gather"))
        await bees.clock.settle()

        found = (await jobs.explain(group.id)).why

    assert isinstance(found, NotDue)
    assert found.note is not None
    assert "failed" == found.note.reason


async def test_a_job_that_has_failed_for_good_is_archived_with_its_past() -> None:
    async with at_work(fail, policy=AGAIN) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(100)

        explanation = await jobs.explain("a")

        assert isinstance(explanation.why, Archived)
        assert ["OSError: disk full"] * 2 == [one.summary for one in explanation.history]


async def test_a_job_that_takes_its_workers_down_is_poisoned() -> None:
    once = bee.Policy(on_stall=bee.Repeat(1))
    async with at_work(wait_for_ever, policy=once) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(2):
            await bees.advance(1)
            await bees.crash()
            await bees.advance(LEASE + 1)
            await bees.start()
        await bees.advance(1)

        explanation = await jobs.explain("a")

        assert isinstance(explanation.why, Poisoned)
        assert 2 == explanation.why.stalls
        assert ["stalled"] * 3 == [one.reason for one in explanation.history]


async def test_a_job_that_is_done_is_explained_by_its_result_as_long_as_that_is_kept() -> None:
    async with at_work(nothing, policy=bee.Policy(keep_result=60)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()
        kept = (await jobs.explain("a")).why
        await bees.advance(61)

        assert isinstance(kept, Ended)
        assert "succeeded" == kept.report.note.reason
        assert NotFound() == (await jobs.explain("a")).why


async def test_a_job_that_timed_out_tells_where_it_was() -> None:
    async def somewhere_deep() -> None:
        await asyncio.Event().wait()

    async def handle(job: Work) -> None:
        await somewhere_deep()

    async with at_work(handle, policy=bee.Policy(timeout=5, on_timeout=bee.Archive())) as (
        bees,
        jobs,
    ):
        await jobs.send(Work(), id="a")
        await bees.advance(20)

        explanation = await jobs.explain("a")

        assert isinstance(explanation.why, Archived)
        assert explanation.why.note is not None
        assert "somewhere_deep" in explanation.why.note.detail
        assert ["stopped after 5 s"] == [one.summary for one in explanation.history]


async def test_every_answer_is_a_sentence() -> None:
    clock = ManualClock()
    hive, jobs = hive_for(fail, policy=ONCE)
    async with running(hive, clock=clock) as bees:
        await jobs.send(Work(), id="a")
        await bees.drain()

        text = str(await jobs.explain("a"))

        lines = text.splitlines()
        assert lines[0].startswith("a in jobs: it was archived at ")
        assert lines[1].endswith("  sent")
        assert "leased by" in lines[2]
        assert lines[2].endswith("OSError: disk full")
        assert lines[3].endswith("archived")


async def test_an_error_of_many_lines_is_one_line_in_the_history() -> None:
    async def handle(job: Work) -> None:
        raise ValueError("first\nsecond\0\ud800" + "x" * 500)

    async with at_work(handle, policy=AGAIN) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        (episode,) = (await jobs.explain("a")).history

        assert "ValueError: first" == episode.summary


async def test_the_past_of_a_job_that_was_retried_is_in_order() -> None:
    async with at_work(fail, policy=ONCE) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await bees.stop()
        await bees.broker.restore("jobs", ["a"])
        await bees.advance(1)

        _, *past = str(await jobs.explain("a")).splitlines()

        assert [line[:27] for line in past] == sorted(line[:27] for line in past)
        assert past[0].endswith("OSError: disk full")
        assert past[1].endswith("  sent again")


async def test_a_job_that_is_due_at_once_after_a_crash_says_so() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await bees.crash()
        await bees.start()
        await bees.advance(LEASE)

        past = str(await jobs.explain("a")).splitlines()

        assert past[2].endswith("stalled; due again at once")


async def test_the_note_of_a_handler_in_a_thread_has_nothing_of_bees_own_errors() -> None:
    def handle(job: Work) -> None:
        raise OSError("disk full")

    async with at_work(handle, policy=ONCE) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        stored = await bees.broker.get("jobs", "a")

        assert stored is not None
        assert stored.note is not None
        assert 1 == stored.note.detail.count("Traceback")
        assert "Raised" not in stored.note.detail


async def test_a_broker_that_is_no_inspector_cannot_explain() -> None:
    class Plain:
        """Has the verbs of a broker, and no others."""

    queue = bee.Queue(Plain(), "jobs", Work)  # type: ignore[arg-type]

    with pytest.raises(bee.InvalidOption, match="Inspector"):
        await queue.explain("a")


async def test_a_job_given_back_at_shutdown_says_so() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await bees.stop()

        explanation = await jobs.explain("a")

        assert ["interrupted"] == [one.reason for one in explanation.history]
        assert explanation.stored is not None
        assert (0, 1) == (explanation.stored.counters.errors, explanation.stored.counters.releases)


async def test_explaining_changes_nothing() -> None:
    async with bee.connect("memory://") as broker:
        assert isinstance(broker, MemoryBroker)
        queue = bee.Queue(broker, "jobs", Work)
        await queue.send(Work(), id="a")
        before = await broker.get("jobs", "a")

        await queue.explain("a")
        await queue.explain("nobody")

        assert before == await broker.get("jobs", "a")
