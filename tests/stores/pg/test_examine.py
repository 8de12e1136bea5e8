"""What ails a database is found, with the name of who is to blame and what to do."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from bee_core.stored import Finding
from bee_pg import PgBroker, examine

from .support import drained, send


async def findings(broker: PgBroker) -> dict[str, str]:
    return {finding.topic: finding.text for finding in await broker.examine()}


async def test_a_healthy_database_has_no_findings(broker: PgBroker) -> None:
    await send(broker, "a", "b")

    assert {} == await findings(broker)


async def test_an_old_transaction_is_found_with_who_has_it(
    broker: PgBroker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "OLD", 0.2)
    options = psycopg.IsolationLevel.REPEATABLE_READ
    async with await psycopg.AsyncConnection.connect(url, application_name="nightly") as other:
        await other.set_isolation_level(options)
        await other.execute("select 1 from bee.message")
        await asyncio.sleep(0.3)

        found = await findings(broker)
        assert (
            f"pid {other.info.backend_pid}, user postgres, application nightly, idle"
            in (found["old transaction"])
        )
        await other.rollback()

    assert {} == await findings(broker)


async def test_dead_rows_that_pile_up_are_found(
    broker: PgBroker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "_MANY_DEAD", 50)
    await broker.send("q", [])
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
        await other.execute("alter table bee.message set (autovacuum_enabled = off)")
    await send(broker, *(f"job-{n}" for n in range(100)))
    assert 100 == len(await drained(broker))

    async with asyncio.timeout(10):
        while "dead rows" not in (found := await findings(broker)):
            await asyncio.sleep(0.1)  # the server's own statistics come after a moment
    assert "last vacuumed never" in found["dead rows"]


def test_each_finding_says_what_to_do() -> None:
    row = (70.0, "pid 7, user ada", 61.0, "tx", "slot", 2_000_000, 10, 20_000, 4.2, 0.75)

    found = examine.findings(row)

    assert [
        Finding(
            "old transaction",
            "open for 70 s (pid 7, user ada): while it is open no dead row can be removed, and "
            "every queue of this server slows down. End it, or set "
            "idle_in_transaction_session_timeout",
        ),
        "prepared transaction",
        "replication slot",
        "dead rows",
        "notifications",
    ] == [found[0], *(finding.topic for finding in found[1:])]
    assert [] == examine.findings((None,) * 6 + (0, 0, None, 0.0))
