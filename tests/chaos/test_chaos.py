"""The short form of the stress runs; the long ones are commands of their own (see the modules)."""

from __future__ import annotations

import pytest

from tests.chaos import clocks, herds, moves, outages, schedules, stores, storm, tasks
from tests.chaos.storm import Plan


@pytest.mark.parametrize("store", stores.NAMES)
def test_workers_killed_at_random_lose_nothing(store: str) -> None:
    plan = Plan(jobs=2_000, seconds=4, kills=30, processes=4, longest=100, history=True)
    report = storm.run(store, plan)

    assert [] == report.faults
    assert report.records > 4_000
    assert report.sent >= 2_000
    assert report.cut_short > 0, "something was running where a process was killed"


def test_workers_in_memory_that_are_stopped_dead_lose_nothing() -> None:
    report = tasks.run(Plan(jobs=4_000, seconds=3, kills=40, processes=6, longest=100))

    assert [] == report.faults
    assert report.sent >= 4_000
    assert report.cut_short > 0


def test_answers_lost_in_memory_lose_nothing() -> None:
    report = tasks.run(Plan(jobs=2_000, seconds=3, kills=10, breaks=100, processes=6))

    assert [] == report.faults
    assert 100 == report.breaks


@pytest.mark.parametrize("store", stores.NAMES)
def test_a_server_killed_under_load_loses_nothing_it_has_acknowledged(store: str) -> None:
    report = storm.run(store, Plan(jobs=1_000, seconds=4, restarts=3, processes=3))

    assert [] == report.faults
    assert 3 == len(report.back)


@pytest.mark.parametrize("store", stores.NAMES)
def test_connections_cut_under_load_lose_nothing(store: str) -> None:
    report = storm.run(store, Plan(jobs=1_000, seconds=4, breaks=40, processes=6, lease=4))

    assert [] == report.faults
    assert report.breaks >= 40


@pytest.mark.parametrize("store", stores.NAMES)
def test_everything_at_once_loses_nothing(store: str) -> None:
    plan = Plan(
        jobs=1_000, seconds=5, kills=8, restarts=1, stops=1, breaks=20, processes=6, lease=4
    )
    report = storm.run(store, plan)

    assert [] == report.faults


@pytest.mark.skipif(clocks.library() is None, reason="no libfaketime: apt-get install faketime")
@pytest.mark.parametrize("store", stores.NAMES)
def test_clocks_that_jump_lose_nothing(store: str) -> None:
    report = storm.run(store, Plan(jobs=1_000, seconds=4, jumps=8, processes=3))

    assert [] == report.faults


@pytest.mark.parametrize("store", stores.NAMES)
def test_a_day_of_schedules_ticks_each_instant_once_whoever_is_killed(store: str) -> None:
    report = schedules.run(store, schedules=50, processes=3, days=1, seconds=16)

    assert [] == report.faults
    assert len(report.expected) > 50
    assert report.kills > 5


@pytest.mark.parametrize("store", herds.NAMES)
def test_processes_of_a_hive_that_are_stopped_or_killed_lose_nothing(store: str) -> None:
    report = herds.run(store, herds.Plan(terms=8, kills=4, processes=4, least=2))

    assert [] == report.faults, report.lines()
    assert report.takeovers.seconds, "something was released"
    assert report.redeliveries.seconds, "something was running where a process was killed"


@pytest.mark.parametrize("store", stores.NAMES)
def test_processes_that_were_paused_for_two_leases_settle_nothing_of_what_they_lost(
    store: str,
) -> None:
    report = herds.run(store, herds.Plan(stops=4, processes=4, least=2))

    assert [] == report.faults, report.lines()
    assert any(entry.what == "lost" for entry in report.entries), "a zombie has tried"


@pytest.mark.parametrize("store", stores.NAMES)
def test_every_worker_goes_on_when_a_server_is_back(store: str) -> None:
    report = outages.run(store, workers=4, seconds=4)

    assert [] == report.faults, report.lines()
    assert 4 == len(report.back_after)


@pytest.mark.parametrize(("source", "destination"), [stores.NAMES, stores.NAMES[::-1]])
def test_a_move_that_is_killed_again_and_again_loses_nothing(source: str, destination: str) -> None:
    servers = [stores.durable(source), stores.durable(destination)]
    try:
        urls = [server.url for server in servers]
        report = moves.run(*urls, jobs=4_000, interrupts=3, batch=50)
    finally:
        for server in servers:
            server.stop()

    assert [] == report.faults, report.lines()
    assert 3 == report.kills
