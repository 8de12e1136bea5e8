"""The names of the queues: known to all, whoever drops, flushes or dies."""

from __future__ import annotations

import asyncio

import pytest

from bee_core.disposition import Archive
from bee_core.errors import BrokerMisconfigured
from bee_core.message import Sent
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import QUEUE, brokers, calls, lease, send, settle


async def test_a_queue_that_was_dropped_by_another_is_listed_again(server: RedisServer) -> None:
    async with brokers(server.url, 2) as (sender, operator):
        for _ in range(3):
            await send(sender, "a")
            assert [QUEUE] == list(await operator.queues())

            await operator.drop(QUEUE)
            assert [] == list(await sender.queues())


@pytest.mark.parametrize("command", ["FLUSHALL", "DEL"])
async def test_a_store_that_was_emptied_by_hand_is_filled_again(
    server: RedisServer, broker: RedisBroker, command: str
) -> None:
    await send(broker, "a")
    if command == "FLUSHALL":
        server.ask("FLUSHALL")
    else:
        server.ask("DEL", *server.ask("KEYS", "bee:*"))

    assert [Sent.CREATED] == await send(broker, "a")

    assert [QUEUE] == list(await broker.queues())


async def test_a_server_that_forgot_everything_is_taken_as_it_is(server: RedisServer) -> None:
    async with RedisBroker(server.url) as broker:
        await send(broker, "a")
        (held,) = await lease(broker)
        server.ask("FLUSHALL")

        assert {held.receipt} == await broker.extend(QUEUE, [held.receipt], duration=60)
        assert {"a"} == await settle(broker, [held])
        assert [] == await lease(broker)
        assert [] == list(await broker.queues())


async def test_a_queue_is_listed_before_anything_is_in_it(own: RedisServer) -> None:
    """Else it would be unknown if its sender died in between."""
    own.ask("CONFIG", "SET", "slowlog-log-slower-than", 0)

    async with RedisBroker(own.url) as broker:
        await send(broker, "a")

    log = [entry[3][0] for entry in reversed(own.ask("SLOWLOG", "GET", 100))]
    assert log.index(b"SADD") < log.index(b"EVALSHA")


async def test_a_queue_is_listed_once_and_not_with_every_send(
    server: RedisServer, broker: RedisBroker
) -> None:
    for number in range(20):
        await send(broker, str(number))

    assert calls(server, "sadd")["sadd"] <= 2


async def test_senders_and_droppers_at_the_same_time_leave_no_queue_unlisted(
    server: RedisServer,
) -> None:
    async with brokers(server.url, 4) as (one, two, operator, looker):
        for number in range(60):
            await asyncio.gather(
                send(one, f"a{number}"), operator.drop(QUEUE), send(two, f"b{number}")
            )

            live = (await looker.stats(QUEUE)).live
            assert ([QUEUE] if live else []) == list(await looker.queues())


async def test_a_paused_queue_is_listed_also_if_nothing_was_ever_in_it(
    server: RedisServer, broker: RedisBroker
) -> None:
    await broker.pause("empty")
    await broker.pause("empty")

    assert ["empty"] == list(await broker.queues())
    await broker.resume("empty")
    assert [] == list(await broker.queues())


async def test_an_archive_alone_keeps_a_queue_listed(broker: RedisBroker) -> None:
    await send(broker, "a")
    await settle(broker, await lease(broker), Archive())

    assert [QUEUE] == list(await broker.queues())


async def test_queues_of_other_prefixes_are_other_queues(server: RedisServer) -> None:
    async with (
        RedisBroker(server.url, prefix="one") as one,
        RedisBroker(server.url, prefix="two words:") as two,
    ):
        await send(one, "a")

        assert [] == list(await two.queues())
        assert [Sent.CREATED] == await send(two, "a")
        await two.drop(QUEUE)
        assert [QUEUE] == list(await one.queues())
        assert 1 == (await one.stats(QUEUE)).ready


async def test_foreign_data_in_place_of_the_registry_is_named(
    server: RedisServer, broker: RedisBroker
) -> None:
    server.ask("SET", "bee:queues", "mine")

    with pytest.raises(BrokerMisconfigured, match="bee:queues is a string, not a set"):
        await send(broker, "a")

    assert b"mine" == server.ask("GET", "bee:queues")
