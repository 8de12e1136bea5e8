"""One plain draft goes straight to the server; what is not as usual goes the way of all others."""

from __future__ import annotations

import pytest

from bee_core.errors import BrokerMisconfigured
from bee_core.message import Sent
from bee_core.stored import State
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import QUEUE, send


async def test_a_server_that_has_forgotten_its_scripts_is_told_them_again(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    server.ask("SCRIPT", "FLUSH")

    assert [Sent.CREATED] == await send(broker, "b")
    assert [Sent.KEPT] == await send(broker, "b")


async def test_what_is_not_bees_is_named_and_nothing_is_sent(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    [bell] = [key for key in server.ask("KEYS", "bee:*") if key.endswith(b"bell")]
    server.ask("DEL", bell)
    server.ask("SET", bell, "somebody else's")

    with pytest.raises(BrokerMisconfigured, match="is a string, not a list"):
        await send(broker, "b")

    server.ask("DEL", bell)
    assert [Sent.CREATED] == await send(broker, "b")


async def test_a_right_that_was_taken_away_is_told_and_not_taken_for_a_send(
    own: RedisServer,
) -> None:
    """The script has stored it by then: tried again, it would be said to have been kept."""
    async with RedisBroker(own.url) as broker:
        await send(broker, "a")
        own.ask("ACL", "SETUSER", "default", "-rpush")

        with pytest.raises(BrokerMisconfigured, match="lacks a right"):
            await send(broker, "b")

        own.ask("ACL", "SETUSER", "default", "+rpush")
        assert ["a", "b"] == [one.id for one in (await broker.scan(QUEUE, State.READY)).items]
