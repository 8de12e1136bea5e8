"""The audit of a storm notices whatever must not be."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.ledger import Entry
from tests.chaos.report import Held, Report, account, table

KILLED = {7: 10.0}


def told(what: str, id: str = "x", token: int = 1, pid: int = 6, at: float = 1.0) -> Entry:
    return Entry(what, id, token, pid, at)


def life(id: str, *, token: int = 1, pid: int = 6, at: float = 1.0) -> list[Entry]:
    """A run that goes as it should."""
    return [told(what, id, token, pid, at) for what in ("run", "ended", "settled")]


def accounted(
    *entries: Entry, waiting: tuple[str, ...] = (), archived: tuple[str, ...] = (), kills: int = 1
) -> Report:
    report = Report(lease=2.0, kills=kills, only_kills=kills)
    account(report, entries, Held(set(waiting), Counter(archived)), KILLED)
    return report


def test_what_is_done_archived_or_waiting_is_not_lost() -> None:
    sent = [told("sent", "done", 0), told("sent", "kept", 1), told("sent", "late", 0)]

    report = accounted(*sent, *life("done"), *life("kept"), waiting=("late",), archived=("kept",))

    assert (3, 1, 1, 1, 0) == (
        report.sent,
        report.done,
        report.archived,
        report.waiting,
        report.lost,
    )
    assert ["1 jobs are left"] == report.faults


@pytest.mark.parametrize("runs", [[], [told("run", pid=7)]], ids=["never run", "never ended"])
def test_what_is_gone_without_having_come_to_its_end_is_lost(runs: list[Entry]) -> None:
    assert ["1 jobs are lost"] == accounted(told("sent", token=0), *runs).faults


def test_a_job_that_was_settled_twice_is_noticed() -> None:
    again = life("x", token=2, pid=8, at=20.0)

    report = accounted(told("sent", token=0), *life("x", pid=7), *again)

    assert "1 jobs were settled twice" in report.faults


def test_a_job_that_was_sent_again_because_the_answer_was_lost_is_another_one() -> None:
    twice = [told("unknown"), told("sent", token=0), *life("x"), *life("x", token=2, at=3.0)]

    report = accounted(*twice, kills=0)

    assert [] == report.faults
    assert 1 == report.sent_twice


def test_a_job_in_the_archive_that_does_not_belong_there_is_noticed() -> None:
    fault = ["1 jobs are archived and should not be, or the other way round"]

    assert fault == accounted(told("sent", token=0), *life("x"), archived=("x",)).faults
    assert fault == accounted(told("sent", token=1), *life("x")).faults


def test_a_run_that_a_kill_cut_short_is_counted_and_how_long_the_next_one_took() -> None:
    again = life("x", token=2, pid=8, at=11.5)

    report = accounted(told("sent", token=0), told("run", pid=7, at=9.0), *again)

    assert [] == report.faults
    assert (1, 0, [1.5]) == (report.cut_short, report.again_after_kill, report.redelivered)


def test_a_handler_that_came_to_its_end_twice_is_counted_for_its_kill() -> None:
    first = [told("run", pid=7, at=9.0), told("ended", pid=7, at=9.5)]

    report = accounted(told("sent", token=0), *first, *life("x", token=2, pid=8, at=12.0))

    assert [] == report.faults
    assert (1, 0, 1.0) == (report.again_after_kill, report.cut_short, report.again_per_kill)


def test_more_than_one_in_ten_is_a_fault() -> None:
    assert [] == Report(2.0, kills=1_000, only_kills=1_000, again_after_kill=100).faults
    assert ["0.11 handlers for each kill ended twice"] == Report(
        2.0, kills=1_000, only_kills=1_000, again_after_kill=110
    ).faults


def test_a_job_that_ran_again_without_a_reason_is_noticed() -> None:
    report = accounted(told("sent", token=0), told("run", pid=6), *life("x", token=2, pid=8))

    assert ["1 jobs ran again although nothing was done to who had them"] == report.faults


def test_a_token_that_was_given_out_twice_is_noticed() -> None:
    report = accounted(told("sent", token=0), told("run", pid=7), *life("x", pid=8))

    assert "1 jobs ran twice with one token" in report.faults


def test_a_job_that_ran_again_far_too_late_is_noticed() -> None:
    again = life("x", token=2, pid=8, at=23.0)

    report = accounted(told("sent", token=0), told("run", pid=7, at=9.0), *again)

    assert ["of the jobs of killed workers, 1 in 100 ran only 13.00 s later"] == report.faults


def test_workers_that_do_not_come_back_are_noticed() -> None:
    report = accounted(told("sent", token=0), *life("x"), told("back", "server", at=5.0))

    assert ["workers took inf s to come back"] == report.faults


def test_several_storms_are_added_up() -> None:
    one = Report(2.0, sent=3, kills=2, redelivered=[1.0], faults_of_lines=Counter(cut=2))
    two = Report(4.0, sent=4, redelivered=[3.0], faults_of_lines=Counter(cut=1, slow=5))

    both = one + two

    assert (4.0, 7, 2, [1.0, 3.0], 3) == (
        both.lease,
        both.sent,
        both.kills,
        both.redelivered,
        both.breaks,
    )
    shown = table({"one": one, "two": two, "both": both})
    assert "one          two         both" in shown[0]
    assert shown[1].split() == ["jobs", "accepted", "3", "4", "7"]
