"""A migration waits for locks, but not for ever, and nobody has to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import bee_core as bee
from bee_pg import PgBroker, migrate
from tests.servers import PgServer

from .support import apply, ask, installed, one_more

READS = 5


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "_LOCK", 0.1)


@contextmanager
def holding(url: str, statement: str) -> Iterator[psycopg.Connection]:
    """A transaction that does something, and stays open."""
    with psycopg.connect(url, application_name="report") as connection:
        connection.execute(statement.encode())
        yield connection


async def test_it_gives_up_in_the_end_and_says_who_was_in_the_way(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    before = await installed(url)
    one_more(monkeypatch)

    with holding(url, "select from bee.message") as report:
        with pytest.raises(bee.BrokerUnavailable) as caught:
            await apply(url, patience=0.5)

        assert f"process {report.info.backend_pid} (report, idle in transaction" in str(
            caught.value
        )
    assert isinstance(caught.value.__cause__, psycopg.errors.LockNotAvailable)
    assert before == await installed(url)


async def test_it_tries_again_until_the_lock_is_free(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    more = one_more(monkeypatch)
    told: list[str] = []

    with holding(url, "select from bee.message") as report:

        def listen(step: str) -> None:
            told.append(step)
            if step == "waiting for a lock":
                report.commit()

        done = await apply(url, report=listen)

    assert [more, "waiting for a lock", more, migrate.FUNCTIONS] == told
    assert [more, migrate.FUNCTIONS] == done


async def test_others_go_on_while_it_waits(pg: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = pg.database()
    await apply(url)
    one_more(monkeypatch)
    waits = asyncio.Event()

    with holding(url, "select from bee.message") as report:
        migrating = asyncio.create_task(apply(url, report=lambda step: waits.set()))
        await waits.wait()
        for _ in range(READS):
            impatient = f"{url}&options=-c%20lock_timeout%3D5s"
            await asyncio.to_thread(ask, impatient, "select from bee.message")
        assert not migrating.done()
        report.commit()
        await migrating

    assert migrate.latest() == await installed(url)


async def test_it_waits_for_another_that_migrates_and_gives_up_as_well(pg: PgServer) -> None:
    url = pg.database()
    other = "select pg_advisory_xact_lock(hashtextextended('bee bee', 0))"

    with (
        holding(url, other),
        pytest.raises(bee.BrokerUnavailable, match=r"process \d+ \(report, idle"),
    ):
        await apply(url, patience=0.3)

    assert None is await installed(url)


async def test_a_broker_that_migrates_says_the_same_before_its_deadline(pg: PgServer) -> None:
    url = pg.database()
    other = "select pg_advisory_xact_lock(hashtextextended('bee bee', 0))"

    with holding(url, other):
        async with PgBroker(url, migrate=True, deadline=2) as broker:
            with pytest.raises(bee.BrokerUnavailable, match="others hold locks"):
                await broker.queues()


async def test_another_schema_is_another_lock(pg: PgServer) -> None:
    url = pg.database()
    other = "select pg_advisory_xact_lock(hashtextextended('bee elsewhere', 0))"

    with holding(url, other):
        await apply(url, patience=5)

    assert migrate.latest() == await installed(url)


async def test_it_does_not_even_look_for_ever(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)

    lock = "lock table bee.version in access exclusive mode"
    with holding(url, lock), pytest.raises(bee.BrokerUnavailable, match="others hold locks"):
        await apply(url, patience=0.3)
