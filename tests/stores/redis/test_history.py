"""What is remembered of leases and workers: no more than there is to tell."""

from __future__ import annotations

import asyncio

import pytest

from bee_core.broker import Store
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.message import Draft, Lease, Note, Settlement
from bee_core.stored import HISTORY, Stored
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import QUEUE, key, lease, lease_one, send, settle

HOUR = 3600


def records(server: RedisServer) -> dict[str, int]:
    """The meta records, by id, and their sizes."""
    names = [name.decode() for name in server.ask("HKEYS", key("meta"))]
    return {name: server.ask("HSTRLEN", key("meta"), name) for name in names}


async def get(broker: Store, id: str) -> Stored:
    """A message that is there."""
    stored = await broker.get(QUEUE, id)
    assert stored is not None
    return stored


async def announce(broker: Store, name: str, *, about: str = "", duration: float = 60) -> None:
    await broker.announce(QUEUE, name, about=about, duration=duration)


async def test_a_message_that_is_leased_for_the_first_time_has_no_word_more_than_it_needs(
    server: RedisServer, broker: RedisBroker
) -> None:
    """Its record is 34 bytes, 12 of its spot, the length of its holder's name, "w", and no note."""
    await send(broker, "a")
    await lease_one(broker)

    assert {"a": 34 + 12 + 2 + 1 + 5} == records(server)


async def test_a_restored_message_has_a_record_only_if_it_has_a_history(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "leased", "waiting")
    await settle(broker, [await lease_one(broker)], Archive())
    await broker.cancel(QUEUE, ["waiting"], to=Archive())

    await broker.restore(QUEUE, ["leased", "waiting"])

    assert ["leased"] == list(records(server))
    assert ["leased", "waiting"] == sorted(held.receipt.id for held in await lease(broker))


async def test_a_record_does_not_grow_with_the_number_of_leases(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    sizes = []
    for _ in range(3 * HISTORY):
        await end(broker, await lease_one(broker))
        sizes.append(records(server)["a"])

    assert sorted(sizes) == sizes
    assert {sizes[HISTORY - 1]} == set(sizes[HISTORY - 1 :])
    assert sizes[HISTORY - 2] < sizes[HISTORY - 1]


async def end(broker: RedisBroker, held: Lease) -> None:
    """Give a message back at once."""
    again = Settlement(held.receipt, Reschedule(), Note("failed"), summary="no")
    assert not await broker.settle(QUEUE, [again])


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "leased before"])
async def test_when_a_lease_began_is_known_also_after_the_clock_went_back(
    server: RedisServer, broker: RedisBroker, fresh: bool
) -> None:
    """Then tokens, from which it is told otherwise, are ahead of the clock."""
    await send(broker, "a", "b")
    if not fresh:
        await end(broker, await lease_one(broker))
        await broker.cancel(QUEUE, ["b"], to=Delete())
    tokens = int(server.ask("HGET", key("head"), "token") or await now(server))
    server.ask("HSET", key("head"), "token", tokens + HOUR * 1_000_000)

    held = await lease_one(broker)
    leased = await get(broker, "a")
    await broker.extend(QUEUE, [held.receipt], duration=60, remarks={"a": "slow"})
    extended = await get(broker, "a")
    await end(broker, held)
    ended = await get(broker, "a")

    assert held.receipt.token > tokens + HOUR * 1_000_000
    assert held.leased_at == leased.leased_at == extended.leased_at
    assert held.leased_at == ended.history[-1].leased_at <= ended.history[-1].ended_at
    assert "slow" == ended.history[-1].remark
    assert None is ended.leased_at


async def now(server: RedisServer) -> int:
    """The server's time in microseconds."""
    seconds, micro = server.ask("TIME")
    return int(seconds) * 1_000_000 + int(micro)


async def test_the_thousand_of_one_call_began_at_the_same_time_or_hardly_later(
    broker: RedisBroker,
) -> None:
    await broker.send(QUEUE, [Draft(f"{n:03}", b"") for n in range(1000)])
    held = await lease(broker, 1000)

    for one in (held[0], held[-1]):
        leased_at = (await get(broker, one.receipt.id)).leased_at
        assert leased_at is not None
        assert -1e-6 <= leased_at - one.leased_at <= 0.001 + 1e-6


async def test_announcements_leave_nothing_behind_when_the_last_one_leaves(
    server: RedisServer, broker: RedisBroker
) -> None:
    await announce(broker, "ann")
    await announce(broker, "bob")
    there = server.ask("EXISTS", key("workers"))

    await announce(broker, "ann", duration=0)
    await announce(broker, "bob", duration=0)

    assert (1, []) == (there, server.ask("KEYS", "*"))


async def test_announcements_of_a_queue_that_everybody_has_left_expire(
    server: RedisServer, broker: RedisBroker
) -> None:
    """With the one that lasts longest, whoever came after it."""
    await announce(broker, "ann", duration=0.2)
    await announce(broker, "bob", duration=0.05)
    left = server.ask("PTTL", key("workers"))
    await asyncio.sleep(0.3)

    assert 50 < left <= 200
    assert [] == server.ask("KEYS", "*")


async def test_those_who_were_silent_for_too_long_are_removed_when_another_one_speaks(
    server: RedisServer, broker: RedisBroker
) -> None:
    for n in range(100):
        await announce(broker, f"old {n}", duration=0.001)
    await announce(broker, "ann")
    await asyncio.sleep(0.01)

    for _ in range(2):
        await announce(broker, "ann")

    assert [b"ann"] == server.ask("HKEYS", key("workers"))


async def test_an_announcement_that_is_not_one_is_passed_over_and_removed(
    server: RedisServer, broker: RedisBroker
) -> None:
    server.ask("HSET", key("workers"), "ann", "?", "bob", "")
    before = await broker.workers(QUEUE)

    await announce(broker, "ann", about="me")

    assert [] == before
    assert [("ann", "me")] == [(one.name, one.about) for one in await broker.workers(QUEUE)]
    assert 1 == server.ask("HLEN", key("workers"))
