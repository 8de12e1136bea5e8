"""Several processes on one queue, some of them killed: their history shows no fault."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.testing.history import Record, check, read
from bee_pg import PgBroker
from tests.history.clients import QUEUE, left, start
from tests.servers import PgServer, RedisServer

CLIENTS = 4
MOST_CLIENTS = 12
"""It goes on until somebody was killed in the middle of a call."""
SECONDS = 5.0
WITHIN = 30.0
"""Seconds to a redelivery. Nobody promises more of processes that compete for two processors."""


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
    codes = await asyncio.gather(*(_one_after_the_other(url, directory, n) for n in range(CLIENTS)))
    records = read(directory)
    while not _without_an_answer(records) and len(codes) < MOST_CLIENTS:
        codes.append(await _one_after_the_other(url, directory, len(codes)))
        records = read(directory)
    async with bee.connect(url) as broker:
        remains = await left(broker)
        await broker.drop(QUEUE)

    assert [] == check(records, remains, within=WITHIN)
    assert {0, -signal.SIGKILL} == {code for some in codes for code in some}
    _has_met_everything(records)


async def _one_after_the_other(url: str, directory: Path, number: int) -> list[int]:
    """One client, and another when it was killed. How they ended."""
    codes: list[int] = []
    while not codes or (codes[-1] == -signal.SIGKILL and len(codes) < 5):
        name = f"c{number}-{len(codes)}"
        client = start(url, directory, name, seed=10 * number + len(codes), seconds=SECONDS)
        codes.append(await asyncio.to_thread(client.wait))
    return codes


def _has_met_everything(records: Sequence[Record]) -> None:
    met = Counter(record.verb for record in records if record.event == "answered" and record.items)
    assert {"send", "lease", "extend", "settle"} == set(met), met
    leased = [item for record in records if record.verb == "lease" for item in record.items]
    assert any(item.stalls for item in leased), "a lease ran out"
    assert any(item.errors for item in leased), "something was repeated"
    assert _without_an_answer(records), "somebody was killed in the middle of a call"


def _without_an_answer(records: Sequence[Record]) -> set[tuple[str, int]]:
    asked = {(record.who, record.call) for record in records if record.event == "asked"}
    answered = {(record.who, record.call) for record in records if record.event == "answered"}
    assert asked >= answered, "an answer that nobody asked for"
    return asked - answered
