"""Whether a goal is met is decided round by round, and by who survives a kill."""

from __future__ import annotations

import pytest

from benchmarks.goals import Goal, goals
from benchmarks.results import Results

from .made_up import lost, results, sample


def found(results: Results, words: str) -> Goal:
    [goal] = [goal for goal in goals(results) if words in goal.what]
    return goal


def test_a_drain_is_compared_with_the_fastest_that_survived_a_kill() -> None:
    run = results(
        sample("drain", "redis_bee", rate=600),
        sample("drain", "redis_swift", rate=900),
        sample("drain", "redis_safe", rate=100),
        sample("drain", "redis_slow", rate=50),
        lost("redis_swift"),
        sample("kill", "redis_safe", seconds=30),
        sample("kill", "redis_slow", seconds=30),
    )

    goal = found(run, "Redis: drain, of the fastest worker")

    assert (6.0, "safe", True) == (goal.found, goal.against, goal.is_met)


def test_a_ratio_is_the_middle_one_of_its_rounds_whatever_the_machine_did_between_them() -> None:
    rates = [(100, 50), (20, 10), (60, 10)]
    run = results(
        *[sample("drain", "redis_bee", n, rate=ours) for n, (ours, _) in enumerate(rates)],
        *[sample("drain", "redis_raw", n, rate=limit) for n, (_, limit) in enumerate(rates)],
    )

    assert 2.0 == found(run, "Redis: drain, of the limit").found


def test_a_send_is_compared_with_the_fastest_of_all() -> None:
    run = results(
        sample("send", "redis_bee", rate=600),
        sample("send", "redis_swift", rate=800),
        lost("redis_swift"),
    )

    goal = found(run, "Redis: send one by one")

    assert (0.75, "swift", False) == (goal.found, goal.against, goal.is_met)


def test_for_a_delay_the_smallest_is_the_best() -> None:
    run = results(
        sample("pick-up", "redis_bee", p50=2.0, p99=9.0),
        sample("pick-up", "redis_swift", p50=1.0, p99=20.0),
        sample("pick-up", "redis_safe", p50=4.0, p99=10.0),
    )

    p50, p99 = found(run, "Redis: idle pick-up, p50"), found(run, "Redis: idle pick-up, p99")

    assert (2.0, False) == (p50.found, p50.is_met)
    assert (0.9, True) == (p99.found, p99.is_met)


@pytest.mark.parametrize(("busy", "is_met"), [(0.5, False), (0.95, True)])
def test_waiting_handlers_may_be_slower_than_theory_only_if_the_loop_is_full(
    busy: float, is_met: bool
) -> None:
    run = results(sample("sleep-1000", "redis_bee", rate=80.0, theory=100.0, busy=busy))

    assert is_met == found(run, "Redis: 1,000 handlers").is_met


@pytest.mark.parametrize(("server", "is_met"), [(500_000.0, False), (1_250_000.0, True)])
def test_or_if_worker_and_server_have_used_up_the_machine(server: float, is_met: bool) -> None:
    run = results(sample("sleep-1000", "redis_bee", rate=1.0, theory=2.0, busy=0.72, server=server))

    goal = found(run, "Redis: 1,000 handlers")

    assert is_met == goal.is_met
    assert is_met == ("0.72 + 1.25 of 2 processors" in goal.against)


def test_what_a_backlog_costs_is_compared_round_by_round() -> None:
    costs = [(10.0, 10.0), (30.0, 20.0), (42.0, 40.0)]
    run = results(
        *[
            sample("backlog", "redis_bee", n, **{"many-cost": many, "few-cost": few})
            for n, (many, few) in enumerate(costs)
        ]
    )

    goal = found(run, "Redis: cost of a job")

    assert (1.05, True) == (goal.found, goal.is_met)


def test_what_was_not_measured_is_not_met() -> None:
    assert not any(goal.is_met for goal in goals(results()))
