"""Plain batches whose ids are in order: they go another way, and mean the same."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from bee_core.errors import BrokerError, BrokerUnavailable, SchemaMissing
from bee_core.ids import new_id
from bee_core.message import Draft, Sent
from bee_pg import PgBroker, migrate

from .support import QUEUE, ask, becomes, brokers, drained, lease, outcome, send

WAITING = (
    "select pid from pg_stat_activity "
    "where wait_event_type = 'Lock' and datname = current_database()"
)


def numbers(url: str) -> list[int]:
    return [number for (number,) in ask(url, "select incarnation from bee.message order by due")]


@pytest.mark.parametrize("size", [1, 2, 9, 10, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("in_order", [True, False])
async def test_batches_are_delivered_in_the_order_in_which_they_were_sent(
    url: str, broker: PgBroker, size: int, in_order: bool
) -> None:
    ids = [new_id() for _ in range(size)]
    ids = ids if in_order else ids[::-1]
    later = [new_id() for _ in range(3)]

    assert [Sent.CREATED] * size == await send(broker, *ids)
    await send(broker, *later)

    assert size + 3 == len(set(numbers(url)))
    assert [*ids, *later] == await drained(broker)


async def test_of_many_that_are_sent_again_only_the_new_ones_are_created(broker: PgBroker) -> None:
    ids = [f"{number:03}" for number in range(20)]
    await send(broker, *ids[::2])

    sent = await send(broker, *ids)

    assert [Sent.KEPT, Sent.CREATED] * 10 == sent
    stats = await broker.stats(QUEUE)
    assert (20, 20) == (stats.live, stats.created)


async def test_however_many_send_the_same_each_is_created_once(url: str) -> None:
    """In the one order that there is, so that nobody waits for one who waits for him."""
    ids = [f"{number:04}" for number in range(300)]
    async with brokers(url, 6) as made:
        for turn in range(5):
            some = [f"{turn}/{id}" for id in ids]
            calls = [send(broker, *some[start:]) for start, broker in enumerate(made)]
            answers = await asyncio.gather(*calls)
            assert 300 == sum(answer.count(Sent.CREATED) for answer in answers)
        assert 1500 == (await made[0].stats(QUEUE)).created


async def test_what_does_not_fit_into_the_socket_arrives_whole(broker: PgBroker) -> None:
    bodies = [bytes([number]) * 300_000 for number in range(30)]

    await broker.send(QUEUE, [Draft(f"{n:02}", body) for n, body in enumerate(bodies)])

    assert bodies == [one.body for one in await lease(broker)]


@pytest.mark.parametrize("size", [1, 50])
async def test_a_connection_on_which_a_send_was_refused_sends_on(url: str, size: int) -> None:
    ids = [f"{number:03}" for number in range(size)]
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, "000")
        [connection] = broker._pool._idle
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("lock table bee.message")
            assert isinstance(await outcome(send(broker, *ids)), BrokerUnavailable)
            await other.rollback()

        assert Sent.KEPT == (await send(broker, *ids))[0]
        assert [connection] == broker._pool._idle


@pytest.mark.parametrize("size", [1, 50])
async def test_a_schema_that_is_made_anew_is_found_by_who_has_sent_before(
    url: str, size: int
) -> None:
    ids = [f"{number:03}" for number in range(size)]
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, *ids)
        ask(url, "drop schema bee cascade")
        assert isinstance(await outcome(send(broker, *ids)), SchemaMissing)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            await migrate.apply(other, "bee")

        assert [Sent.CREATED] * size == await send(broker, *ids)


@pytest.mark.parametrize("size", [1, 50])
async def test_a_send_that_is_cancelled_ends_at_once_and_the_next_one_works(
    url: str, size: int
) -> None:
    ids = [f"{number:03}" for number in range(size)]
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, "000")
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("lock table bee.message")
            sending = asyncio.create_task(send(broker, *ids))
            await becomes(lambda: bool(broker._pool._busy), "it is not under way")
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(sending, 2)
            await other.rollback()

        assert size == len(await send(broker, *ids))


async def test_without_prepared_statements_it_is_the_same(url: str) -> None:
    async with brokers(url, 1) as (broker,):
        await broker.queues()
        broker._pool.prepares = False  # as behind a pooler

        assert [Sent.CREATED] == await send(broker, "a")
        assert [Sent.KEPT, Sent.CREATED] == await send(broker, "a", "b")

        assert not any(connection._names for connection in broker._pool._idle)


async def test_a_transaction_that_was_rolled_back_does_not_keep_a_connection_from_sending(
    url: str, broker: PgBroker
) -> None:
    """With another isolation level calls are transactions, after which psycopg tidies up."""
    other = (
        f"{url}{'&' if '?' in url else '?'}options=-cdefault_transaction_isolation%3Dserializable"
    )
    async with PgBroker(other, pool_size=1) as strict:
        for number in range(5):
            await send(strict, f"before {number}")
            await strict.stats(QUEUE)
        async with await psycopg.AsyncConnection.connect(url) as rival:
            await rival.execute("lock table bee.message in access exclusive mode")
            looking = asyncio.create_task(strict.stats(QUEUE))
            await becomes(lambda: len(ask(url, WAITING)) == 1, "it does not wait for the lock")
            ask(url, f"select pg_cancel_backend(({WAITING}))")
            with pytest.raises(BrokerError):
                await looking

        assert [Sent.CREATED] * 3 == [(await send(strict, f"after {n}"))[0] for n in range(3)]


@pytest.mark.parametrize("size", [1, 50])
async def test_who_meets_an_id_that_is_being_sent_is_told_so_before_the_deadline(
    url: str, size: int
) -> None:
    """Over a connection that has sent before, and for as long as a lock is waited for."""
    ids = [f"{number:03}" for number in range(size)]
    async with brokers(url, 1, pool_size=1, deadline=30) as (broker,):
        await send(broker, "before")
        await send(broker, "just before")
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("select bee.send_plain('q', array['000'], array['other'::bytea])")
            began = asyncio.get_running_loop().time()
            with pytest.raises(BrokerUnavailable, match="lock timeout"):
                await send(broker, *ids)
            assert 2.5 < asyncio.get_running_loop().time() - began < 20
            await other.rollback()

        assert [Sent.CREATED] * size == await send(broker, *ids)


async def test_a_socket_is_watched_no_longer_when_no_call_has_followed(url: str) -> None:
    loop = asyncio.get_running_loop()
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, "before")
        for number in range(5):  # one after the other, and then something else at once
            await send(broker, f"{number}")
        assert 6 == (await broker.stats(QUEUE)).live
        await send(broker, "last")
        await asyncio.sleep(0)
        [connection] = broker._pool._idle

        assert not loop.remove_reader(connection.pgconn.socket)
        assert [Sent.KEPT] == await send(broker, "last")


async def test_a_server_that_hangs_up_between_two_sends_costs_nothing(url: str) -> None:
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, "before")
        for number in range(5):
            await send(broker, f"{number}")
            [connection] = broker._pool._idle
            ask(url, f"select pg_terminate_backend({connection.info.backend_pid}, 5000)")
        await send(broker, "last")

        assert 7 == (await broker.stats(QUEUE)).live


async def test_who_has_become_idle_while_a_send_waited_is_woken_by_it(url: str) -> None:
    async with brokers(url, 2, pool_size=2) as (broker, worker):
        await send(broker, "before")
        await drained(worker)
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("select bee.send_plain('q', array['a'], array['other'::bytea])")
            sending = asyncio.create_task(send(broker, "a"))
            await becomes(lambda: len(ask(url, WAITING)) == 1, "it waits")
            waiting = asyncio.create_task(worker.wait(QUEUE, timeout=60))
            await becomes(lambda: ask(url, "select count(*) from bee.idle") == [(1,)], "idle")
            await asyncio.sleep(0.05)  # so long that it has waited, and is not just slow
            await other.rollback()

            assert [Sent.CREATED] == await sending
            await asyncio.wait_for(waiting, 3)
