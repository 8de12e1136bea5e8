"""What is moved away costs what it is, and not what is left."""

from __future__ import annotations

import asyncio

import pytest

from bee_core.disposition import Archive
from bee_core.message import Draft
from bee_core.stored import State
from bee_pg import PgBroker

from .support import QUEUE, ask, lease, send, settle

MANY, SOME = 5_000, 200


def rows_read(url: str) -> int:
    """By PostgreSQL's own count of what the indexes gave."""
    [(count,)] = ask(
        url, "select sum(idx_tup_read)::int from pg_stat_user_indexes where schemaname = 'bee'"
    )
    return int(count)


@pytest.mark.parametrize("state", [State.READY, State.ARCHIVED])
async def test_expel_and_adopt_read_what_they_are_given_though_nothing_was_ever_analysed(
    url: str, broker: PgBroker, state: State
) -> None:
    await broker.send(QUEUE, [Draft("all", b"", 900, awaits=2)])  # so that there are reports
    await send(broker, "child", reports_to="all")
    await settle(broker, await lease(broker))
    for n in range(0, MANY, 20):
        await send(broker, *(str(n + i) for i in range(20)))
        if state is State.ARCHIVED:
            await settle(broker, await lease(broker, 20), Archive())
    seen = (await broker.scan(QUEUE, state, limit=SOME)).items
    await broker.aclose()  # its counts are written when it goes
    await asyncio.sleep(0.5)

    for verb in ("expel", "adopt"):
        before = rows_read(url)
        async with PgBroker(url) as other:
            assert [] == list(await getattr(other, verb)(QUEUE, seen))
        await asyncio.sleep(0.5)
        assert rows_read(url) - before < 10 * SOME, verb
