"""From two looks at a queue to a number of workers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bee_core as bee
from bee_core.scaling import Flow, flow, wanted
from bee_core.stored import QueueStats

EMPTY = QueueStats()


def a_flow(**fields: Any) -> Flow:
    nothing = {"arrival": 0.0, "service": 0.0, "backlog": 0, "running": 0.0, "oldest_due": 0.0}
    return Flow(**nothing | fields)


def test_rates_come_from_what_ended_and_from_what_is_due_now() -> None:
    before = QueueStats(ready=10, leased=5, delayed=3, created=100)
    after = QueueStats(ready=20, leased=5, delayed=3, created=130, oldest_due=7.5)

    assert flow(before, after, 10) == Flow(
        arrival=3.0, service=2.0, backlog=20, running=5.0, oldest_due=7.5
    )


def test_a_job_arrives_when_it_is_due_and_not_when_it_is_sent() -> None:
    sent = flow(EMPTY, QueueStats(delayed=100, created=100), 10)
    due = flow(QueueStats(delayed=100, created=100), QueueStats(ready=100, created=100), 10)

    assert (0.0, 10.0) == (sent.arrival, due.arrival)


def test_a_queue_that_was_dropped_meanwhile_gives_no_negative_rates() -> None:
    seen = flow(QueueStats(ready=50, created=500), QueueStats(ready=1, created=1), 10)

    assert (0.0, 0.0) == (seen.arrival, seen.service)


def test_the_time_to_drain_is_what_is_left_over_what_is_gained() -> None:
    assert 20.0 == a_flow(arrival=5.0, service=10.0, backlog=100).drain_time
    assert 0.0 == a_flow(arrival=5.0, service=5.0).drain_time
    assert math.inf == a_flow(arrival=5.0, service=5.0, backlog=1).drain_time
    assert math.inf == a_flow(backlog=1).drain_time


def test_how_long_a_job_takes_follows_from_how_many_run_and_how_many_end() -> None:
    assert 2.5 == a_flow(running=10.0, service=4.0).run_time
    assert a_flow(running=10.0).run_time is None


def test_nothing_to_do_needs_nobody() -> None:
    assert 0 == wanted(a_flow(), current=5, most=10)
    assert 2 == wanted(a_flow(), current=5, least=2, most=10)


def test_a_paused_queue_needs_nobody_whatever_is_in_it() -> None:
    seen = a_flow(backlog=1000, oldest_due=1000.0, paused=True)

    assert 0 == wanted(seen, current=0, most=10)


def test_one_job_brings_the_first_worker_when_there_is_none() -> None:
    assert 1 == wanted(a_flow(backlog=1), current=0, most=10)
    assert 1 == wanted(a_flow(backlog=1000, oldest_due=500.0), current=0, most=10)


def test_without_workers_a_known_rate_gives_the_number_at_once() -> None:
    seen = a_flow(arrival=10.0, backlog=600)

    assert 4 == wanted(seen, current=0, most=10, per_worker=5.0, target=60)


def test_enough_to_keep_up_and_to_work_off_the_backlog_in_time() -> None:
    # 20 run at once and 10 end in a second: a job takes 2 s, so a worker with 10 slots ends 5.
    seen = a_flow(arrival=10.0, service=10.0, running=20.0, backlog=900)

    assert 5 == wanted(seen, current=2, most=10, concurrency=10, target=60)
    assert 2 == wanted(a_flow(arrival=10.0, service=10.0, running=20.0), current=5, most=10)


def test_what_will_have_piled_up_while_a_worker_starts_counts_too() -> None:
    seen = a_flow(arrival=40.0, service=10.0, running=20.0)

    assert 8 == wanted(seen, current=2, most=100)
    assert 14 == wanted(seen, current=2, most=100, spin_up=60)


def test_no_more_workers_than_there_are_jobs_for() -> None:
    # Each takes an hour: forty workers could not make two jobs end sooner than two slots can.
    seen = a_flow(service=1 / 3600, running=1.0, backlog=1, oldest_due=600.0)

    assert 1 == wanted(seen, current=1, most=100)


def test_while_nothing_ends_the_age_of_the_oldest_decides() -> None:
    young = a_flow(running=10.0, backlog=500, oldest_due=30.0)
    old = a_flow(running=10.0, backlog=500, oldest_due=90.0)

    assert 3 == wanted(young, current=3, most=100, target=60)
    assert 6 == wanted(old, current=3, most=100, target=60)


def test_workers_that_seem_idle_are_halved() -> None:
    """Jobs so short that no look finds one running."""
    assert 4 == wanted(a_flow(arrival=3.0, service=3.0), current=8, most=10)
    assert 1 == wanted(a_flow(arrival=3.0, service=3.0), current=1, most=10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"current": -1},
        {"most": 0, "least": 1},
        {"least": -1},
        {"concurrency": 0},
        {"per_worker": 0.0},
        {"per_worker": math.inf},
        {"per_worker": "15"},
        {"target": 0},
        {"spin_up": -1},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(bee.InvalidOption):
        wanted(a_flow(backlog=1), **{"current": 0, "most": 5} | wrong)


def test_two_looks_at_the_same_moment_are_refused() -> None:
    with pytest.raises(bee.InvalidOption, match="elapsed"):
        flow(EMPTY, EMPTY, 0)


COUNTS = st.integers(0, 10**9)


def looks() -> st.SearchStrategy[QueueStats]:
    return st.builds(
        QueueStats,
        ready=COUNTS,
        delayed=COUNTS,
        leased=COUNTS,
        created=COUNTS,
        oldest_due=st.none() | st.floats(0, 1e9),
        paused=st.booleans(),
    )


@given(looks(), looks(), st.floats(0.001, 1e6), st.integers(0, 1000), st.integers(0, 5))
def test_whatever_is_seen_the_answer_is_within_its_bounds(
    before: QueueStats, after: QueueStats, elapsed: float, current: int, least: int
) -> None:
    seen = flow(before, after, elapsed)

    assert least <= wanted(seen, current=current, least=least, most=least + 20) <= least + 20
    assert seen.drain_time >= 0
