"""Sending inside a transaction of one's own: the jobs exist exactly when it commits."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine

import bee_core as bee
import bee_pg
from bee_core.errors import BrokerUnavailable, IdTaken, InvalidName, InvalidOption, SchemaMissing
from bee_core.message import Draft, Reject, Sent, Update
from bee_pg import PgBroker

from .support import QUEUE, ask, becomes, brokers, drained, ids, lease, resting, send

TRANSACTIONS = 1000


class Work(bee.Job):
    number: int = 0


@pytest.fixture
def queue(broker: PgBroker) -> bee.Queue[Work]:
    return bee.Queue(broker, QUEUE, Work)


async def test_a_transaction_rolled_back_leaves_nothing(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        (ticket,) = await bee_pg.sending(connection).send(queue, Work(1))
        assert Sent.CREATED is ticket.sent
        assert 0 == (await broker.stats(QUEUE)).live
        await connection.rollback()
        assert 0 == (await broker.stats(QUEUE)).live

    with psycopg.connect(url) as connection:
        broker.sending(connection).send(queue, Work(2), Work(3))
        connection.rollback()
    assert 0 == (await broker.stats(QUEUE)).live


async def test_a_transaction_committed_leaves_all(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    ask(url, "create table orders (number int)")
    async with (
        await psycopg.AsyncConnection.connect(url) as connection,
        connection.transaction(),
    ):
        await connection.execute("insert into orders values (7)")
        await broker.sending(connection).send(queue, Work(7), queue.draft(Work(8)))
    with psycopg.connect(url, row_factory=dict_row, autocommit=True) as other:
        with other.transaction():
            tickets = bee_pg.sending(other).send(queue, Work(9))
        assert [] == bee_pg.sending(other).send(queue)
    assert [Sent.CREATED] == [ticket.sent for ticket in tickets]
    assert 3 == len(await drained(broker))


async def test_many_plain_drafts_of_which_some_are_taken_are_sent_but_for_those(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    first = [Draft(f"{number:03}", b"1") for number in range(50)]
    second = [Draft(f"{number:03}", b"2") for number in range(25, 75)]
    await broker.send(QUEUE, first)

    with psycopg.connect(url) as connection:
        tickets = bee_pg.sending(connection).send(queue, *second)
        assert 50 == (await broker.stats(QUEUE)).live
        connection.commit()

    assert [Sent.KEPT] * 25 + [Sent.CREATED] * 25 == [ticket.sent for ticket in tickets]
    assert 75 == (await broker.stats(QUEUE)).created
    leases = await broker.lease(QUEUE, limit=100, duration=60, holder="me")
    assert [b"1"] * 50 + [b"2"] * 25 == [lease.body for lease in leases]


async def test_a_savepoint_rolled_back_takes_its_jobs_along(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    with psycopg.connect(url) as connection:
        sending = broker.sending(connection)
        sending.send(queue, Draft("kept", b""))
        with connection.transaction(force_rollback=True):
            sending.send(queue, Draft("gone", b""))
        connection.commit()
    assert ["kept"] == await drained(broker)


async def test_the_commit_wakes_a_worker_that_waits(url: str) -> None:
    async with brokers(url, 1) as (broker,):
        queue = bee.Queue(broker, QUEUE, Work)
        for commits in (True, False):
            waiting = asyncio.create_task(broker.wait(QUEUE, timeout=60))
            await becomes(lambda: resting(url) == 1, "it does not wait")
            await becomes(lambda: not broker._pool._busy, "it does not wait")
            async with await psycopg.AsyncConnection.connect(url) as connection:
                await broker.sending(connection).send(queue, Work())
                await asyncio.sleep(0.1)
                assert not waiting.done()
                await (connection.commit() if commits else connection.rollback())
            if commits:
                await asyncio.wait_for(waiting, 3)
                assert 1 == len(await drained(broker))
            else:
                await asyncio.sleep(0.1)
                assert not waiting.done()
                waiting.cancel()


async def test_an_id_that_is_taken_leaves_the_transaction_usable(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    await send(broker, "a")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        sending = broker.sending(connection)
        await sending.send(queue, Draft("before", b""))
        with pytest.raises(IdTaken) as taken:
            await sending.send(queue, Draft("b", b""), Draft("a", b"", if_taken=Reject()))
        assert frozenset({"a"}) == taken.value.ids
        await sending.send(queue, Draft("after", b""))
        await connection.commit()
    assert ["a", "before", "after"] == await drained(broker)


async def test_what_cannot_be_sent_is_refused_before_the_transaction_hears_of_it(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    with psycopg.connect(url) as connection:
        sending = broker.sending(connection)
        with pytest.raises(InvalidName):
            sending.send(queue, Draft("a", b""), Draft("a", b""))
        with pytest.raises(InvalidName):
            sending.send(queue, Draft("a\0", b""))
        sending.send(queue, Draft("good", b""))
        connection.commit()
    assert ["good"] == await drained(broker)


async def test_a_schema_that_is_missing_is_named(url: str, queue: bee.Queue[Work]) -> None:
    with psycopg.connect(url) as connection, pytest.raises(SchemaMissing, match="nowhere"):
        bee_pg.sending(connection, schema="nowhere").send(queue, Work())


async def test_what_is_not_a_connection_is_refused() -> None:
    for wrong in (None, object(), "postgresql://", 7):
        with pytest.raises(InvalidOption, match="psycopg"):
            bee_pg.sending(wrong)


async def test_an_updates_lock_lasts_until_the_commit_and_leases_pass_by(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    await send(broker, "a", "b")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await broker.sending(connection).send(queue, Draft("a", b"new", if_taken=Update()))
        assert ["b"] == ids(await lease(broker))
        await connection.commit()
    (held,) = await lease(broker)
    assert b"new" == held.body


async def test_a_transaction_that_must_be_serializable_is_told_to_try_again(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("select 1 from bee.message")
        await send(broker, "a")
        with pytest.raises(BrokerUnavailable, match="could not serialize"):
            await broker.sending(connection).send(queue, Draft("a", b"", if_taken=Update()))
        await connection.rollback()
        await broker.sending(connection).send(queue, Draft("a", b"new", if_taken=Update()))
        await connection.commit()
    (held,) = await lease(broker)
    assert b"new" == held.body


async def test_a_thousand_transactions_are_accounted_for_exactly(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    ask(url, "create table orders (name text)")
    chance = random.Random(7)
    numbers = iter(range(TRANSACTIONS))
    committed: set[str] = set()

    async def customer() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            sending = broker.sending(connection)
            for number in numbers:
                name = f"order {number}"
                await connection.execute("insert into orders values (%s)", [name])
                await sending.send(queue, Draft(name, b""))
                if chance.random() < 0.3:
                    await connection.rollback()
                else:
                    await connection.commit()
                    committed.add(name)

    customers = asyncio.gather(*(customer() for _ in range(5)))
    came: list[str] = []
    while not customers.done():
        came += await drained(broker)
    await customers
    came += await drained(broker)

    assert committed == {row[0] for row in ask(url, "select name from orders")}
    assert sorted(committed) == sorted(came)
    assert 600 < len(came) < 800


async def test_sqlalchemys_connections_send_too(
    url: str, broker: PgBroker, queue: bee.Queue[Work]
) -> None:
    address = url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(address)
    try:
        with engine.begin() as connection:
            broker.sending(connection).send(queue, Draft("core", b""))
        with engine.connect() as connection:
            broker.sending(connection).send(queue, Draft("never", b""))
        with sqlalchemy.orm.Session(engine) as session, session.begin():
            broker.sending(session.connection()).send(queue, Draft("orm", b""))
    finally:
        engine.dispose()
    slow = create_async_engine(address)
    try:
        async with slow.begin() as connection:
            raw = await connection.get_raw_connection()
            await broker.sending(raw.driver_connection).send(queue, Draft("async", b""))
    finally:
        await slow.dispose()
    assert ["core", "orm", "async"] == await drained(broker)
