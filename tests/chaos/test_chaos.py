"""The short form of the stress runs; the long ones are commands of their own (see the modules)."""

from __future__ import annotations

from tests.chaos import kills, restarts
from tests.servers import RedisServer


def test_workers_killed_at_random_lose_nothing(valkey: RedisServer) -> None:
    report = kills.run(valkey.url, jobs=2_000, kills=20, processes=3)

    assert [] == report.faults
    assert 2_000 == len(report.audit.sent)
    assert 20 == len(report.killed)


def test_a_server_killed_under_load_loses_nothing_it_has_acknowledged() -> None:
    report = restarts.run(restarts=3)

    assert [] == report.faults
    assert len(report.audit.sent) > 100
