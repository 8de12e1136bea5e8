"""Failure jobs: told of every job that has failed for good, in the step that ends it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.testing import HiveUnderTest, ManualClock

from .support import LEASE, STEADY, Work, at_work, begin, live, reasons, settled

LONG = 100_000.0


class Reports:
    """A failure handler that keeps what it was told."""

    def __init__(self, failing: int = 0) -> None:
        self.told: list[bee.Failure[Work]] = []
        self.deliveries: list[bee.Delivery[Work]] = []
        self._failing = failing

    async def __call__(self, failure: bee.Failure[Work], delivery: bee.Delivery[Work]) -> None:
        self.told.append(failure)
        self.deliveries.append(delivery)
        if len(self.told) <= self._failing:
            raise ValueError("nor does this work")


async def fail(job: Work) -> None:
    raise ValueError("no")


async def hang(job: Work) -> None:
    await asyncio.Event().wait()


async def bodies(bees: HiveUnderTest) -> list[bytes]:
    page = await bees.broker.inner.scan("jobs", bee.State.ARCHIVED)
    return [stored.body for stored in page.items]


async def test_a_job_that_has_failed_for_good_is_reported_with_all_that_is_known() -> None:
    reports = Reports()
    policy = bee.Policy(on_error=bee.Repeat(2), backoff=STEADY)
    async with at_work(fail, policy=policy, on_failure=reports) as (bees, jobs):
        await jobs.send(Work("x", 7), id="a", headers={"trace": "1"})
        await bees.advance(LONG)

        (failure,) = reports.told
        assert ("a", Work("x", 7)) == (failure.id, failure.job)
        assert {"trace": "1"} == failure.headers
        assert bee.Counters(deliveries=3, errors=3) == failure.counters
        assert "failed" == failure.note.reason
        assert "ValueError: no" in failure.note.detail
        assert jobs.codec.encode(Work("x", 7)) == failure.body
        assert Counter({"failed": 1}) == await reasons(bees)


@pytest.mark.parametrize("otherwise", [bee.Archive(), bee.Delete()])
async def test_it_is_reported_whether_it_is_kept_or_not(otherwise: bee.Terminal) -> None:
    reports = Reports()
    policy = bee.Policy(on_error=bee.Repeat(0, otherwise=otherwise))
    async with at_work(fail, policy=policy, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert ["a"] == [failure.id for failure in reports.told]


async def test_a_job_that_timed_out_for_good_is_reported() -> None:
    reports = Reports()
    policy = bee.Policy(timeout=5, on_timeout=bee.Repeat(1), backoff=STEADY)
    async with at_work(hang, policy=policy, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        (failure,) = reports.told
        assert ("timed_out", 2) == (failure.note.reason, failure.counters.timeouts)


async def test_a_job_that_killed_its_workers_is_reported() -> None:
    reports = Reports()
    policy = bee.Policy(timeout=None, on_stall=bee.Repeat(1))
    async with at_work(hang, policy=policy, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        for _ in range(2):
            await bees.crash()
            await begin(bees)
            await bees.advance(LEASE)

        (failure,) = reports.told
        assert ("stalled", 2) == (failure.note.reason, failure.counters.stalls)


async def test_bytes_that_are_no_job_are_reported_without_one() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, _):
        await bees.broker.send("jobs", [bee.Draft("a", b"\xff\x00 not a job")])
        await bees.drain()

        (failure,) = reports.told
        assert ("a", None, b"\xff\x00 not a job") == (failure.id, failure.job, failure.body)
        assert "malformed" == failure.note.reason


async def test_an_unknown_kind_is_reported_when_it_is_given_up() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, _):
        await bees.broker.send("jobs", [bee.Draft("a", b'{"v":1,"job":{"type":"other"}}')])
        await bees.drain()
        assert [] == reports.told

        await bees.advance(LONG)

        (failure,) = reports.told
        assert ("unknown", None) == (failure.note.reason, failure.job)


async def succeed(job: Work) -> object:
    return None


async def archive(job: Work) -> object:
    return bee.Archive()


async def delete(job: Work) -> object:
    return bee.Delete()


@pytest.mark.parametrize("handle", [succeed, archive, delete])
async def test_success_and_a_ruling_are_not_reported(handle: object) -> None:
    reports = Reports()
    policy = bee.Policy(on_success=bee.Archive())
    async with at_work(handle, policy=policy, on_failure=reports) as (bees, jobs):  # type: ignore[arg-type]
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        assert [] == reports.told


@pytest.mark.parametrize("strategy", [bee.Archive(), bee.Delete(), bee.Reschedule(5)])
async def test_an_interrupted_job_is_not_reported(strategy: bee.InterruptStrategy) -> None:
    reports = Reports()
    policy = bee.Policy(timeout=None, on_interrupt=strategy)
    async with at_work(hang, policy=policy, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await bees.stop()
        await begin(bees)
        await bees.clock.settle()

        assert [] == reports.told


async def test_a_cancelled_job_is_not_reported() -> None:
    reports = Reports()
    async with at_work(hang, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await jobs.cancel("a")
        await bees.advance(LEASE)

        assert [] == reports.told
        assert Counter({"cancelled": 1}) == await reasons(bees)


async def test_without_a_failure_handler_the_archive_is_all() -> None:
    async with at_work(fail) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Failed", "Archive"): 1}) == settled(bees)
        assert (0, Counter({"failed": 1})) == (await live(bees), await reasons(bees))


async def test_the_report_is_sent_in_the_very_step_that_ends_the_job() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, jobs):
        before, after = bees.broker.gate("settle"), bees.broker.gate("settle", when="after")
        await jobs.send(Work(), id="a")
        await before.reached.wait()
        assert 1 == await live(bees)
        before.open()
        await after.reached.wait()

        assert (1, Counter({"failed": 1})) == (await live(bees), await reasons(bees))
        states = (bee.State.READY, bee.State.LEASED)  # somebody may have it already
        pages = [await bees.broker.inner.scan("jobs", state) for state in states]
        (report,) = [*pages[0].items, *pages[1].items]
        assert {"bee-kind": "failure"} == dict(report.headers)

        after.open()
        await bees.drain()


async def test_an_answer_that_is_lost_reports_once() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, jobs):
        bees.broker.lose_answer("settle")
        await jobs.send(Work(), id="a")
        await bees.advance(LEASE)

        assert ["a"] == [failure.id for failure in reports.told]


async def test_a_failure_handler_that_fails_is_repeated_by_its_own_policy(
    bee_clock: ManualClock,
) -> None:
    reports = Reports(failing=3)
    policy = bee.Policy(on_error=bee.Archive())
    async with at_work(fail, policy=policy, on_failure=reports, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(LONG)

        assert ["a"] * 4 == [failure.id for failure in reports.told]
        assert [1, 2, 3, 4] == [delivery.attempt for delivery in reports.deliveries]


async def test_a_failure_handler_that_always_fails_ends_in_the_archive_and_is_not_reported() -> (
    None
):
    reports = Reports(failing=10_000)
    async with at_work(fail, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(100 * 1000)

        assert 101 == len(reports.told)
        assert {"a"} == {failure.id for failure in reports.told}
        assert (0, Counter({"failed": 2})) == (await live(bees), await reasons(bees))


async def test_a_failure_job_may_send_what_follows() -> None:
    seen: list[str] = []

    async def handle(job: Work) -> None:
        seen.append(job.what)
        if job.what == "bad":
            raise ValueError("no")

    async def report(failure: bee.Failure[Work], delivery: bee.Delivery[Work]) -> None:
        delivery.then(Work("apology"))

    async with at_work(handle, on_failure=report) as (bees, jobs):
        await jobs.send(Work("bad"))
        await bees.drain()

        assert ["bad", "apology"] == seen


async def test_every_failure_of_the_same_id_is_reported_on_its_own() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, jobs):
        for _ in range(3):
            await jobs.send(Work(), id="a")
            await bees.drain()

        assert ["a"] * 3 == [failure.id for failure in reports.told]


async def test_a_report_that_nobody_handles_any_more_waits_and_is_kept() -> None:
    """The release without a failure handler must not lose the reports of the one with it."""
    async with at_work(fail) as (bees, _):
        headers = {"bee-kind": "failure"}
        await bees.broker.send("jobs", [bee.Draft("failure-1", b"{}", headers=headers)])
        await bees.advance(LONG)

        assert Counter({"unknown": 1}) == await reasons(bees)
        assert [b"{}"] == await bodies(bees)


async def test_a_report_that_cannot_be_read_is_archived_and_not_reported() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, _):
        headers = {"bee-kind": "failure"}
        await bees.broker.send("jobs", [bee.Draft("failure-1", b"{}", headers=headers)])
        await bees.advance(LONG)

        assert [] == reports.told
        assert Counter({"malformed": 1}) == await reasons(bees)


async def test_a_job_with_the_id_of_a_report_does_not_swallow_it() -> None:
    reports = Reports()
    async with at_work(fail, on_failure=reports) as (bees, jobs):
        await jobs.send(Work(), id="failure-1", delay=1000)
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert ["a"] == [failure.id for failure in reports.told]
