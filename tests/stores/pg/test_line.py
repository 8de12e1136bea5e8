"""How far back a lease looks: see bee_pg/line.py."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from bee_core.disposition import Reschedule
from bee_core.errors import BrokerError
from bee_core.message import PRIORITIES, Draft, Sent, Settlement, Update
from bee_pg import PgBroker
from bee_pg.line import Line
from bee_pg.records import Leased
from tests.stores.pg.support import QUEUE, ask, ids, lease, lease_one, send, settle

SLOW, MANY = 0.01, 50
TURN = f"hashtextextended('bee line bee {QUEUE}', 0)"


def look(line: Line, at: float, found: Leased, *, enough: bool = True) -> None:
    """A lease as the broker makes it."""
    lows, _ = line.reach(at)
    line.looked(at, at, found, whole=lows is None, enough=enough)


def found(lasts: dict[int, float], *, at: float, took: float = SLOW) -> Leased:
    return Leased([], lasts, at, took)


def lows_of(line: Line, now: float) -> dict[int, float | None] | None:
    lows, _ = line.reach(now)
    return None if lows is None else dict(zip(reversed(PRIORITIES), lows, strict=True))


def test_after_two_slow_looks_the_next_begins_where_the_last_lease_ended() -> None:
    line = Line()
    look(line, 1.0, found({0: 100.0}, at=500.0))
    assert lows_of(line, 1.0) is None

    look(line, 1.1, found({0: 101.0, 5: 90.0}, at=500.1))
    lows = lows_of(line, 1.1)
    assert lows is not None
    assert (101.0, 90.0, None) == (lows[0], lows[5], lows[-9])


def test_what_is_committed_a_little_late_is_seen_though_the_line_was_seen_to_its_end() -> None:
    line = Line()
    for at in (1.0, 1.1):
        look(line, at, found({0: 499.99}, at=500.0))

    lows = lows_of(line, 1.1)
    assert lows is not None
    assert 499.75 == lows[0]


def test_a_whole_look_follows_after_a_hundred_times_as_long_as_it_took() -> None:
    line = Line()
    for at in (1.0, 1.1):
        look(line, at, found({0: 100.0}, at=500.0))

    assert lows_of(line, 1.1 + 100 * SLOW - 0.001) is not None
    assert lows_of(line, 1.1 + 100 * SLOW) is None


def test_one_that_has_not_found_enough_is_followed_by_a_whole_look() -> None:
    line = Line()
    for at in (1.0, 1.1):
        look(line, at, found({0: 100.0}, at=500.0))
    look(line, 1.11, found({0: 101.0}, at=500.0), enough=False)

    assert lows_of(line, 1.12) is None


def test_fast_looks_are_whole() -> None:
    line = Line()
    for at in (1.0, 1.1, 1.2):
        look(line, at, found({0: 100.0}, at=500.0, took=0.0002))

    assert lows_of(line, 1.2) is None


async def test_what_was_sent_back_is_found_at_once_though_looks_are_slow(broker: PgBroker) -> None:
    await send(broker, "a")
    held = await lease_one(broker)

    for _ in range(2):
        assert set() == await broker.settle(QUEUE, [Settlement(held.receipt, Reschedule())])
        broker._line(QUEUE)._again = float("inf")  # as after slow looks
        held = await lease_one(broker)


async def test_a_look_begins_where_others_have_come_until_it_is_a_whole_one(
    url: str, broker: PgBroker
) -> None:
    await send(broker, *(f"{n:03}" for n in range(300)))
    ask(url, "update bee.message set due = due - interval '1 hour' + number * interval '1 ms'")
    async with broker.clone() as other:
        (first,) = await lease(other, 1)
        line = other._line(QUEUE)
        line._again = float("inf")  # as after slow looks
        await lease(broker, 99, duration=120)  # so that it was just now for a while
        ask(url, "update bee.message set leased = false where id < '060'")

        found = await lease(other, MANY)
        assert "100" == ids(found)[0], "those are in front of where another has come"
        line.forget()
        assert [f"{n:03}" for n in range(50)] == ids(await lease(other, MANY))
        assert {"000"} == await settle(other, [first])

        line._again = broker._line(QUEUE)._again = float("inf")
        assert "150" == ids(await lease(broker, MANY, duration=120))[0]
        found = await lease(other, MANY)
        assert "050" == ids(found)[0], "who has gone back takes all that is there"


async def test_a_turn_that_somebody_keeps_is_not_waited_for_long(
    url: str, broker: PgBroker
) -> None:
    """Of one whose process was stopped while its answer was on the way."""
    await send(broker, "a")
    await lease_one(broker)
    with psycopg.connect(url) as stopped:
        stopped.execute(f"select pg_advisory_xact_lock({TURN})")
        for id in "bc":
            await send(broker, id)
            broker._line(QUEUE)._again = float("inf")  # as after slow looks
            began = time.monotonic()
            assert [id] == ids(await lease(broker, MANY))
            assert time.monotonic() - began > 0.2, "it has not waited at all"


async def test_only_who_wants_many_and_has_found_looks_slow_waits_for_a_turn(
    url: str, broker: PgBroker
) -> None:
    await send(broker, *"abc")
    ask(
        url,
        "create or replace function bee.queue_up(queue text, patience double precision) "
        "returns void language plpgsql as $$ begin raise 'it waits'; end $$",
    )

    assert ["a"] == ids(await lease(broker, 1))
    broker._line(QUEUE)._again = float("inf")  # as after slow looks
    assert ["b"] == ids(await lease(broker, 1))
    with pytest.raises(BrokerError, match="it waits"):
        await lease(broker, MANY)
    broker._line(QUEUE).forget()
    assert ["c"] == ids(await lease(broker, MANY))


@pytest.mark.parametrize("kept", [0.1, 0.6], ids=["had", "not had"])
async def test_who_has_waited_for_a_turn_waits_for_locks_as_long_as_before(
    url: str, broker: PgBroker, kept: float
) -> None:
    await send(broker, "a")

    def wait() -> object:
        with psycopg.connect(url) as connection:
            connection.execute("set local lock_timeout = '1234ms'")
            connection.execute(f"select bee.queue_up('{QUEUE}', 0.25)")
            row = connection.execute("show lock_timeout").fetchone()
            assert row is not None
            return row[0]

    with psycopg.connect(url) as holder:
        holder.execute(f"select pg_advisory_xact_lock({TURN})")
        waiting = asyncio.create_task(asyncio.to_thread(wait))
        await asyncio.sleep(kept)
    assert "1234ms" == await waiting


async def test_leases_are_in_order_wherever_their_rows_are_and_whatever_others_wait_for(
    broker: PgBroker,
) -> None:
    """Rows that are changed move within the table; a successor makes the lease look at it."""
    await send(broker, "held")
    held = await lease_one(broker)
    assert [Sent.BLOCKED] == await broker.send(QUEUE, [Draft("held", b"new", if_taken=Update())])
    for n in range(30):
        await send(broker, f"{n:02}", priority=n % 3)
    stay = Update(run_at="never")
    moved = [Draft(f"{n:02}", b"new", if_taken=stay, priority=n % 3) for n in range(0, 30, 7)]
    await broker.send(QUEUE, moved)

    expected = [f"{n:02}" for level in (2, 1, 0) for n in range(level, 30, 3)]
    leases = await lease(broker, 20) + await lease(broker, 20)
    assert expected == ids(leases)
    assert set() == await settle(broker, [held, *leases])
    assert ["held"] == ids(await lease(broker))
