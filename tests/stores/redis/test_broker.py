"""A broker object: the event loop it belongs to, and the client library under it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio.connection import ConnectionPool, UnixDomainSocketConnection

from bee_core.disposition import Archive
from bee_core.errors import BrokerClosed, InvalidName, InvalidOption
from bee_core.message import Draft, Sent
from bee_core.stored import State
from bee_core.testing.conformance.guards import verbs
from bee_redis import RedisBroker
from bee_redis.connection import PoolLink
from tests.servers import RedisServer

from .support import QUEUE, at_most, ids, lease, outcome, settle


async def test_a_broker_belongs_to_one_event_loop(server: RedisServer) -> None:
    broker = RedisBroker(server.url)
    await broker.stats(QUEUE)

    def elsewhere() -> dict[str, object]:
        async def every_verb() -> dict[str, object]:
            calls = {**verbs(broker, QUEUE), "queues": broker.queues, "aclose": broker.aclose}
            return {verb: await outcome(call()) for verb, call in calls.items()}

        return asyncio.run(every_verb())

    ends = await asyncio.to_thread(elsewhere)

    for verb, end in ends.items():
        assert isinstance(end, BrokerClosed), verb
        assert "another event loop" in str(end), verb
        assert verb == "aclose" or "use clone()" in str(end)
    assert 0 == (await broker.stats(QUEUE)).live
    await broker.aclose()


async def test_a_broker_whose_event_loop_is_gone_can_still_be_closed(server: RedisServer) -> None:
    broker = RedisBroker(server.url)

    def elsewhere() -> None:
        async def use() -> None:
            await broker.stats(QUEUE)
            await broker._link.aclose()  # type: ignore[union-attr]  # no sockets are left behind

        asyncio.run(use())

    await asyncio.to_thread(elsewhere)
    with at_most(1):
        await broker.aclose()

    with pytest.raises(BrokerClosed):
        await broker.stats(QUEUE)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_pool_that_decodes_answers_makes_no_difference(
    server: RedisServer, protocol: int
) -> None:
    def make(size: int) -> PoolLink:
        return PoolLink(
            ConnectionPool(
                UnixDomainSocketConnection,
                max_connections=size,
                path=str(server.socket),
                decode_responses=True,
                protocol=protocol,
            )
        )

    async with RedisBroker(server.url) as broker:
        broker._where = broker._where._replace(make=make)
        body = bytes(range(256))
        assert [Sent.CREATED] == list(await broker.send(QUEUE, [Draft("ä🐝", body)]))
        (held,) = await lease(broker)

        assert ("ä🐝", body) == (held.receipt.id, held.body)
        assert [QUEUE] == list(await broker.queues())
        await broker.wait(QUEUE, timeout=0.01)
        assert set() == await settle(broker, [held], Archive())
        assert ["ä🐝"] == ids((await broker.scan(QUEUE, State.ARCHIVED)).items)


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"holder": ["w"]}, InvalidName),
        ({"holder": None}, InvalidName),
        ({"duration": [1]}, InvalidOption),
        ({"duration": True}, InvalidOption),
    ],
)
async def test_what_a_lease_cannot_be_asked_for_is_refused_also_after_what_can(
    broker: RedisBroker, wrong: dict[str, Any], refusal: type[Exception]
) -> None:
    good: dict[str, Any] = {"limit": 1, "duration": 1, "holder": "w"}
    await broker.lease(QUEUE, **good)

    with pytest.raises(refusal):
        await broker.lease(QUEUE, **good | wrong)
