"""Several processes on one queue, some of them killed: their history shows no fault."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import get_args

import pytest

from bee_core.testing.history import Verb
from bee_pg import PgBroker
from tests.history.run import History, run
from tests.servers import PgServer, RedisServer

SECONDS = 6.0
TRIES = 3
"""It goes on until somebody was killed in the middle of a call."""


@pytest.mark.timeout(120)
async def test_processes_that_die_at_any_point_break_no_promise_of_valkey(
    valkey: RedisServer, tmp_path: Path
) -> None:
    await _run(valkey.url, tmp_path)


@pytest.mark.timeout(120)
async def test_processes_that_die_at_any_point_break_no_promise_of_postgres(
    pg: PgServer, tmp_path: Path
) -> None:
    url = pg.database()
    async with PgBroker(url, migrate=True) as broker:
        await broker.queues()

    await _run(url, tmp_path)


async def _run(url: str, directory: Path) -> None:
    for seed in range(TRIES):
        (own := directory / str(seed)).mkdir()
        history = await run(url, own, seconds=SECONDS, seed=seed)

        assert [] == history.faults
        if history.unanswered:
            break
    _has_met_everything(history)


def _has_met_everything(history: History) -> None:
    assert {0, -signal.SIGKILL} == set(history.codes)
    for verb in get_args(Verb):
        assert history.items("answered", verb), verb
    leased = history.items("answered", "lease")
    assert any(item.stalls for item in leased), "a lease ran out"
    assert any(item.errors for item in leased), "something was repeated"
    assert history.unanswered, "somebody was killed in the middle of a call"
