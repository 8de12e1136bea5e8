"""Handlers in processes of their own: results, errors, crashes, and a kill that is real."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.outcome import Failed, Succeeded
from bee_core.testing import HiveUnderTest

from . import in_processes
from .support import (
    DEFAULT,
    Jobs,
    Work,
    alive,
    at_work,
    children,
    counted,
    heard,
    pid_in,
    settled,
    under_test,
    until,
)


@pytest.fixture(autouse=True)
async def _no_child_is_left() -> AsyncIterator[None]:
    before = children()
    yield
    await until(lambda: children() <= before)


GRACE = 5.0


def acting(policy: bee.Policy = DEFAULT, concurrency: int = 1) -> tuple[bee.Hive, Jobs]:
    """A hive whose jobs are done by `act`, in a process."""
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=policy, concurrency=concurrency)
    jobs.on(Work, process=True)(in_processes.act)
    return hive, jobs


def hanging(policy: bee.Policy) -> tuple[bee.Hive, Jobs]:
    """A hive whose jobs hang for ever in a process."""
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=policy)
    jobs.on(Work, process=True)(in_processes.hang)
    return hive, jobs


def ends(bees: HiveUnderTest) -> dict[str, AttemptSettled]:
    """How the first run of each job was settled, by id."""
    return {event.id: event for event in reversed(heard(bees, AttemptSettled))}


async def test_what_a_process_returns_or_raises_is_what_its_job_comes_to() -> None:
    hive, jobs = acting(bee.Policy(on_error=bee.Repeat(9)))
    told = ["double", "pid", "fail", "retry", "give up", "rule", "print"]
    async with under_test(hive) as bees:
        for what in told:
            await jobs.send(Work(what, 21), id=what)
        await until(lambda: len(ends(bees)) == len(told))

        outcomes = {what: event.outcome for what, event in ends(bees).items()}
        assert Succeeded(42) == outcomes["double"]
        assert Succeeded(os.getpid()) != outcomes["pid"]
        assert Succeeded(None) == outcomes["print"]
        assert isinstance(failed := outcomes["fail"], Failed)
        assert "ValueError('no way')" == repr(failed.error)
        assert {
            "retry": bee.Reschedule(60),
            "give up": bee.Archive(),
            "rule": bee.Archive(),
        } == {what: ends(bees)[what].disposition for what in ("retry", "give up", "rule")}


async def test_what_cannot_be_pickled_is_a_failure_and_the_process_goes_on() -> None:
    hive, jobs = acting()
    told = ["fail oddly", "return the unpicklable", "double"]
    async with under_test(hive) as bees:
        for what in told:
            await jobs.send(Work(what), id=what)
        await bees.drain()

        assert ["Failed", "Failed", "Succeeded"] == [
            type(ends(bees)[what].outcome).__name__ for what in told
        ]


async def test_a_process_may_snooze() -> None:
    hive, jobs = acting()
    async with under_test(hive) as bees:
        await jobs.send(Work("snooze"), id="a")
        await until(lambda: settled(bees))

        assert bee.Reschedule(60) == ends(bees)["a"].disposition


async def test_a_job_that_kills_every_process_is_archived_and_its_neighbours_survive() -> None:
    hive, jobs = acting(bee.Policy(on_stall=bee.Repeat(1)))
    async with under_test(hive) as bees:
        await jobs.send(Work("crash"), id="bad")
        await jobs.send(
            Work("crash by signal"), id="worse", policy=bee.Policy(on_stall=bee.Delete())
        )
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert {
            ("bad", "Stalled", "Reschedule"): 1,
            ("bad", "Stalled", "Archive"): 1,
            ("worse", "Stalled", "Delete"): 1,
            ("good", "Succeeded", "Delete"): 1,
        } == settled(bees)
        (archived,) = await bees.archived(jobs)
        assert bee.Counters(deliveries=2, stalls=2) == archived.counters


async def test_a_process_that_runs_over_is_killed(tmp_path: Path) -> None:
    hive, jobs = hanging(bee.Policy(timeout=10, on_timeout=bee.Archive()))
    async with under_test(hive) as bees:
        await jobs.send(Work(str(tmp_path / "pid")), id="a")
        pid = await pid_in(tmp_path / "pid")
        assert alive(pid)

        await bees.advance(10)
        assert alive(pid)  # it ignores SIGTERM
        assert not settled(bees)
        await bees.advance(GRACE)
        await until(lambda: settled(bees))

        await until(lambda: not alive(pid))
        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)
        assert Counter({"AttemptStarted": 1, "AttemptSettled": 1}) == counted(bees)


async def test_a_process_whose_job_is_cancelled_is_killed(tmp_path: Path) -> None:
    hive, jobs = hanging(bee.Policy(timeout=None))
    async with under_test(hive) as bees:
        await jobs.send(Work(str(tmp_path / "pid")), id="a")
        pid = await pid_in(tmp_path / "pid")
        await jobs.cancel("a")
        await bees.advance(1)  # its worker has a slot free, and so hears of it
        await bees.advance(GRACE)

        await until(lambda: not alive(pid))
        await until(lambda: counted(bees)["AttemptLost"])
        assert Counter({"AttemptStarted": 1, "AttemptLost": 1}) == counted(bees)


async def test_a_process_interrupted_at_shutdown_is_killed_and_its_job_given_back(
    tmp_path: Path,
) -> None:
    hive, jobs = hanging(bee.Policy(timeout=None))
    async with under_test(hive) as bees:
        await jobs.send(Work(str(tmp_path / "pid")), id="a")
        pid = await pid_in(tmp_path / "pid")
        await bees.stop()

        await until(lambda: not alive(pid))  # the clock that was moved is not the kernel's
        assert Counter({("a", "Interrupted", "Reschedule"): 1}) == settled(bees)


async def test_a_handler_may_run_a_part_of_its_work_in_a_process(tmp_path: Path) -> None:
    sums: list[int] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        sums.append(await delivery.run_in_process(in_processes.add, job.number, 1))
        if job.what == "hang":
            await delivery.run_in_process(in_processes.hang, Work(str(tmp_path / "pid")))
        elif job.what == "crash":
            await delivery.run_in_process(in_processes.act, job)

    policy = bee.Policy(timeout=10, on_timeout=bee.Archive(), on_stall=bee.Archive())
    async with at_work(handle, policy=policy, concurrency=1) as (bees, jobs):
        await jobs.send(Work(number=1), id="sum")
        await jobs.send(Work("crash", number=2), id="crash")
        await jobs.send(Work("hang", number=3), id="hang")
        pid = await pid_in(tmp_path / "pid")
        await bees.advance(10)
        await bees.advance(GRACE)
        await until(lambda: len(settled(bees)) == 3)

        await until(lambda: not alive(pid))
        assert [2, 3, 4] == sums
        assert {
            ("sum", "Succeeded", "Delete"): 1,
            ("crash", "Stalled", "Archive"): 1,
            ("hang", "TimedOut", "Archive"): 1,
        } == settled(bees)


@pytest.mark.parametrize(
    "what", ["call a program", "call a program that reads", "call a program that complains"]
)
async def test_a_process_may_call_programs(what: str) -> None:
    hive, jobs = acting()
    async with under_test(hive) as bees:
        await jobs.send(Work(what), id="a")
        with suppress(AssertionError):
            await until(lambda: settled(bees), patience=20)

        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_process_that_is_told_to_stop_may_clean_up(tmp_path: Path) -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=bee.Policy(timeout=10, on_timeout=bee.Archive()))
    jobs.on(Work, process=True)(in_processes.clean_up)
    async with under_test(hive) as bees:
        await jobs.send(Work(str(tmp_path / "pid")), id="a")
        pid = await pid_in(tmp_path / "pid")
        await bees.advance(10)
        await until(lambda: settled(bees))

        assert (tmp_path / "pid.clean").exists()
        assert not alive(pid)
        assert Counter({("a", "TimedOut", "Archive"): 1}) == settled(bees)


async def test_a_crash_is_told_as_what_it_was_and_runs_beside_others(tmp_path: Path) -> None:
    hive, jobs = acting(bee.Policy(on_stall=bee.Archive(), timeout=None), concurrency=4)
    async with under_test(hive) as bees:
        for number in range(3):
            await jobs.send(Work(f"wait for {tmp_path / 'go'}"), id=f"long-{number}")
        await jobs.send(Work("crash by signal"), id="bad")
        await until(lambda: settled(bees), patience=20)

        assert {("bad", "Stalled", "Archive"): 1} == settled(bees)
        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "the process that ran the handler died: killed by SIGKILL" == archived.note.detail
        (tmp_path / "go").touch()
        await bees.drain()
        assert 4 == len(settled(bees))
        assert 3 == sum(outcome == "Succeeded" for _, outcome, _ in settled(bees))


async def test_what_a_process_raised_is_kept_with_where_that_was() -> None:
    hive, jobs = acting()
    async with under_test(hive) as bees:
        await jobs.send(Work("fail"), id="a")
        await bees.drain()

        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "in_processes.py" in archived.note.detail
        assert archived.note.detail.endswith("ValueError: no way\n")


async def test_a_worker_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    hive, jobs = hanging(bee.Policy(timeout=None))
    async with under_test(hive) as bees:
        await jobs.send(Work(str(tmp_path / "pid")), id="a")
        pid = await pid_in(tmp_path / "pid")
        bees.hive.kill()

        await until(lambda: not alive(pid))
        assert Counter() == settled(bees)


async def test_a_process_that_exits_fails_its_own_job_and_no_other() -> None:
    hive, jobs = acting()
    async with under_test(hive) as bees:
        await jobs.send(Work("exit"), id="bad")
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert {("bad", "Failed", "Archive"): 1, ("good", "Succeeded", "Delete"): 1} == settled(
            bees
        )


async def test_an_async_function_and_one_that_wants_its_delivery_cannot_run_in_a_process() -> None:
    async def asynchronous(job: Work) -> None: ...

    def curious(job: Work, delivery: bee.Delivery[Work]) -> None: ...

    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work)
    with pytest.raises(bee.InvalidOption, match="async"):
        jobs.on(Work, process=True)(asynchronous)
    with pytest.raises(bee.InvalidOption, match="the job alone"):
        jobs.on(Work, process=True)(curious)
