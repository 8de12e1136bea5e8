"""What is not due yet costs those nothing who look for what is."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from bee_pg import PgBroker

from .support import QUEUE, ask, ids, lease, send, settle

DELAYED = 300_000
READY = 1_000


@pytest.fixture
async def crowded(url: str, broker: PgBroker) -> PgBroker:
    ask(
        url,
        "insert into bee.message (queue, id, incarnation, number, priority, sent_at, due, body) "
        "select %s, 'd' || n, n, n, 0, now(), now() + make_interval(secs => 3600 + n), '' "
        "from (select nextval('bee.number') n from generate_series(1, %s)) x",
        QUEUE,
        DELAYED,
    )
    await send(broker, *(f"r{n:04}" for n in range(READY)))
    ask(url, "vacuum analyze bee.message")
    return broker


def cost(url: str, call: str, *arguments: object) -> tuple[int, Any]:
    """The buffers that a statement touches, the second time. It is rolled back."""
    explain = f"explain (analyze, buffers, format json, timing off) select * from bee.{call}"
    with psycopg.connect(url) as connection:
        for _ in range(2):
            found = connection.execute(explain.encode(), arguments).fetchone()
            connection.rollback()
        assert found is not None
        plan = found[0][0]["Plan"]
        touched = ("Shared Hit Blocks", "Shared Read Blocks")
        return sum(plan[kind] for kind in touched), plan


async def test_a_lease_does_not_read_what_is_not_due(url: str, crowded: PgBroker) -> None:
    buffers, plan = cost(url, "lease(%s, 10, 60, 'w')", QUEUE)
    assert 10 + 1 == plan["Actual Rows"]  # the last row is about all of them
    assert buffers < 1500, buffers  # 300,000 rows would be thousands more

    leases = await lease(crowded, 100)
    assert [f"r{n:04}" for n in range(100)] == ids(leases)
    assert set() == await settle(crowded, leases)


async def test_an_empty_poll_stays_cheap(url: str, crowded: PgBroker) -> None:
    while leases := await lease(crowded):
        await settle(crowded, leases)
    ask(url, "vacuum bee.message")

    for call, most in (("lease(%s, 100, 60, 'w')", 400), ("upcoming(%s)", 400)):
        buffers, _ = cost(url, call, QUEUE)
        assert buffers < most, (call, buffers)


async def test_rows_read_are_rows_leased(url: str, crowded: PgBroker) -> None:
    """By PostgreSQL's own count of what the index gave."""
    question = (
        "select idx_tup_read from pg_stat_user_indexes "
        "where indexrelname = 'message_line' and schemaname = 'bee'"
    )

    def read() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(question).fetchone()
        assert found is not None
        return int(found[0])

    with psycopg.connect(url, autocommit=True) as connection:
        before = read()
        for _ in range(10):
            connection.execute("select count(*) from bee.lease(%s, 10, 60, 'w')", [QUEUE])
        connection.execute("select pg_stat_force_next_flush()")
    assert 100 <= read() - before <= 400
