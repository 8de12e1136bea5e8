"""Two who want the same: one gets it, the other is told, and nobody meets an error."""

from __future__ import annotations

import asyncio

import psycopg

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Draft, Sent, Settlement, Update
from bee_core.stored import State
from bee_pg import PgBroker

from .races import overlap, race
from .support import QUEUE, ask, brokers, drained, ids, lease, lease_one, send, settle

ROUNDS = 300


async def test_of_two_who_settle_extend_and_lease_the_same_messages_one_gets_each(
    url: str,
) -> None:
    happened = await race(url, ROUNDS)

    assert happened["applied"] > ROUNDS
    assert happened["taken"] > 0


async def test_overlapping_sends_in_opposite_orders_raise_nothing(url: str) -> None:
    happened = await overlap(url, ROUNDS // 15)

    assert 8 * (ROUNDS // 15) == happened["send"]


async def test_a_settlement_waits_for_one_that_is_not_committed_and_is_lost(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a", "b")
    held = await lease(broker)

    with psycopg.connect(url) as other:
        receipt = held[0].receipt
        mine = [QUEUE, [receipt.id], [receipt.token]]
        assert other.execute("select bee.settle(%s, %s, %s, 'D')", mine).fetchone() == ([],)
        settling = asyncio.create_task(settle(broker, held))
        await waits_for_a_lock(url)
        other.commit()

        assert {"a"} == await settling
    assert 0 == (await broker.stats(QUEUE)).live


async def test_a_settlement_that_waits_for_one_rolled_back_is_applied(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    held = await lease(broker)

    with psycopg.connect(url) as other:
        receipt = held[0].receipt
        mine = [QUEUE, [receipt.id], [receipt.token]]
        other.execute("select bee.settle(%s, %s, %s, 'D')", mine)
        settling = asyncio.create_task(settle(broker, held, Archive()))
        await waits_for_a_lock(url)
        other.rollback()

        assert set() == await settling
    assert {"ruled": 1} == (await broker.stats(QUEUE)).archived


async def test_a_message_that_somebody_is_settling_is_not_leased(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    held = await lease_one(broker, duration=0.001)

    with psycopg.connect(url) as other:
        mine = [QUEUE, [held.receipt.id], [held.receipt.token]]
        other.execute("select bee.settle(%s, %s, %s, 'D')", mine)
        assert [] == await lease(broker)
        other.commit()
    assert [] == await lease(broker)


async def test_a_successor_that_is_not_committed_yet_is_not_forgotten_by_the_settlement(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    held = await lease_one(broker)

    async with await psycopg.AsyncConnection.connect(url) as other:
        sending = broker.sending(other)
        queue = Named()
        await sending.send(queue, Draft("a", b"new", if_taken=Update()))
        settling = asyncio.create_task(settle(broker, [held]))
        await waits_for_a_lock(url)
        await other.commit()
        assert set() == await settling

    (follows,) = await lease(broker)
    assert b"new" == follows.body


async def test_a_queue_dropped_while_a_successor_arrives_leaves_no_ghost(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a")
    await lease_one(broker)

    async with await psycopg.AsyncConnection.connect(url) as other:
        await broker.sending(other).send(Named(), Draft("a", b"new", if_taken=Update()))
        dropping = asyncio.create_task(broker.drop(QUEUE))
        await waits_for_a_lock(url)
        await other.commit()
        await dropping

    assert 0 == (await broker.stats(QUEUE)).live
    assert [] == (await broker.scan(QUEUE, State.BLOCKED)).items


async def test_a_message_dropped_and_sent_again_keeps_no_lease(broker: PgBroker) -> None:
    for turn in range(50):
        await send(broker, "a")
        (held,) = await lease(broker)
        back = Settlement(held.receipt, Reschedule())
        sent, _, lost = await asyncio.gather(
            broker.send(QUEUE, [Draft("a", b"new", if_taken=Update())]),
            broker.drop(QUEUE),
            broker.settle(QUEUE, [back]),
        )
        assert lost <= {held.receipt}
        assert set(sent) <= {Sent.BLOCKED, Sent.CREATED, Sent.UPDATED}
        left = await drained(broker)
        assert len(left) <= 1, turn


async def test_deadlocks_with_somebody_elses_transaction_do_not_reach_the_caller(
    url: str,
) -> None:
    """He takes rows in another order than bee does; PostgreSQL ends one of the two."""
    async with brokers(url, 1) as (broker,):
        await send(broker, "a", "b")
        held = await lease(broker)
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("set deadlock_timeout = '10s'")  # so that bee is the victim
            await other.execute("select from bee.message where id = 'b' for update")
            settling = asyncio.create_task(settle(broker, held))
            await waits_for_a_lock(url)
            await other.execute("select from bee.message where id = 'a' for update")
            await other.commit()
            assert set() == await settling
        assert ask(url, "select deadlocks from pg_stat_database where datname = current_database()")
        assert 0 == (await broker.stats(QUEUE)).live


class Named:
    """As much of a queue as `sending` needs."""

    name = QUEUE

    def draft(self, job: Draft) -> Draft:
        return job


async def waits_for_a_lock(url: str) -> None:
    """Return when a connection of bee's waits for somebody."""
    question = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and application_name = 'bee' and wait_event_type = 'Lock'"
    )
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for _ in range(1000):
            found = await (await connection.execute(question)).fetchone()
            if found and found[0]:
                return
            await asyncio.sleep(0.005)
    raise AssertionError("nobody waits for a lock")


async def test_who_cancels_a_group_waits_for_its_members_before_he_has_whom_they_report_to(
    url: str, broker: PgBroker
) -> None:
    await send(broker, "a", awaits=1, delay=60.0)
    await send(broker, "b", reports_to="a")
    row = "select from bee.message where id = %s for update nowait"

    with psycopg.connect(url) as other:
        other.execute(row, ["b"])
        cancelling = asyncio.create_task(broker.cancel(QUEUE, ["a", "b"], to=Delete()))
        await asyncio.sleep(0.2)
        other.execute(row, ["a"])

    assert set() == await cancelling


async def test_what_changes_while_drop_and_purge_wait_for_it_is_deleted_nevertheless(
    url: str, broker: PgBroker
) -> None:
    for delete in (broker.drop, broker.purge):
        await send(broker, "a", awaits=2, delay=60.0)

        with psycopg.connect(url) as other:
            other.execute("update bee.message set heard = 1")
            deleting = asyncio.create_task(delete(QUEUE))
            await asyncio.sleep(0.2)
        await deleting

        assert await broker.get(QUEUE, "a") is None


async def test_what_was_locked_by_one_who_failed_is_passed_by_only_while_there_is_enough_else(
    url: str, broker: PgBroker
) -> None:
    """While looks are slow they pass by rows that bear the mark of a lock, and marks stay."""
    await send(broker, "a", "b", "c")
    with psycopg.connect(url) as other:
        other.execute("select from bee.message where id = 'a' for update")
        other.rollback()

    broker._line(QUEUE)._again = float("inf")  # as after slow looks
    assert ["b", "c"] == ids(await lease(broker, 2))
    assert ["a"] == ids(await lease(broker, 2))
