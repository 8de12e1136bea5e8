"""A worker dies before and after every call of a job's life: on memory all, on servers some."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec
import pytest

from bee_core.message import Receipt, Settlement
from bee_core.testing.faults import FaultyBroker
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.sweep import AT_ONCE, every_point, sweep_memory, sweep_server
from tests.worker.support import new_store

SECONDS = 20.0
"""For each server."""

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", SCENARIOS)
def test_wherever_it_dies_the_job_ends_where_its_policy_says(name: str) -> None:
    report = sweep_memory(SCENARIOS[name])

    assert [] == report.faults
    assert report.points >= 10


@pytest.mark.parametrize("store", ["valkey", "pg"])
def test_it_does_so_on_a_server_too(store: str, request: pytest.FixtureRequest) -> None:
    """As many points as fit; `python -m tests.simulation.sweep --store pg` does all."""
    url = new_store(request, store)
    points = list(every_point(range(1, 9)))
    random.Random(0).shuffle(points)
    started, faults, died = time.monotonic(), list[str](), 0

    while points and time.monotonic() - started < SECONDS:
        some, points = points[:AT_ONCE], points[AT_ONCE:]
        report, _ = sweep_server(store, url, some)
        faults += report.faults
        died += report.points

    assert [] == faults
    assert died > 0


class Torn(FaultyBroker):
    """Does in two calls what has to be one: what follows from a job is sent afterwards."""

    def clone(self) -> Torn:
        return Torn(self.inner.clone())

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        whole = [msgspec.structs.replace(one, then=()) for one in settlements]
        lost = await self.inner.settle(queue, whole)
        for one in settlements:
            if one.then and one.receipt not in lost:
                await self.inner.send(queue, one.then)
        return lost


@pytest.mark.parametrize("name", ["then", "group"])
def test_what_is_not_done_in_one_step_is_found(name: str) -> None:
    report = sweep_memory(SCENARIOS[name], Torn)

    assert any("found []" in fault or "is left" in fault for fault in report.faults)
