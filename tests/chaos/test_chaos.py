"""The short form of the stress runs; the long ones are commands of their own (see the modules)."""

from __future__ import annotations

import pytest

from tests.chaos import kills, restarts, schedules, stores


@pytest.mark.parametrize("store", stores.NAMES)
def test_workers_killed_at_random_lose_nothing(store: str) -> None:
    server = stores.durable(store)
    try:
        report = kills.run(server.url, jobs=2_000, kills=20, processes=3)
    finally:
        server.stop()

    assert [] == report.faults
    assert 2_000 == len(report.audit.sent)
    assert 20 == len(report.killed)


@pytest.mark.parametrize("store", stores.NAMES)
def test_a_server_killed_under_load_loses_nothing_it_has_acknowledged(store: str) -> None:
    report = restarts.run(store, restarts=3)

    assert [] == report.faults
    assert len(report.audit.sent) > 100


@pytest.mark.parametrize("store", stores.NAMES)
def test_connections_cut_under_load_lose_nothing(store: str) -> None:
    report = restarts.run(store, restarts=3, cut=True)

    assert [] == report.faults
    assert len(report.audit.sent) > 100


@pytest.mark.parametrize("store", stores.NAMES)
def test_a_day_of_schedules_ticks_each_instant_once_whoever_is_killed(store: str) -> None:
    report = schedules.run(store, schedules=50, processes=3, days=1, seconds=16)

    assert [] == report.faults
    assert len(report.expected) > 50
    assert report.kills > 5
