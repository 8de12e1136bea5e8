"""Hostile bodies in the queue of a worker, on every store."""

from __future__ import annotations

import pytest

import bee_core as bee
from tests.fuzz import working
from tests.worker.support import new_store


@pytest.mark.parametrize("store", ["memory", "valkey", "pg"])
async def test_a_worker_keeps_what_it_cannot_read_and_runs_all_else(
    store: str, request: pytest.FixtureRequest
) -> None:
    async with bee.connect(new_store(request, store)) as broker:
        outcome = await working.run(broker, 400, seed=3)

    assert [] == outcome.faults[:5]
    assert outcome.sent["malformed"] > 200
    assert outcome.sent["unknown"] > 5
    assert outcome.sent["job"] > 40
