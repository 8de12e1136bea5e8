"""Every call ends within its deadline, whatever the server does, and harms no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bee_core.errors import BrokerClosed, BrokerMisconfigured, BrokerUnavailable, OutcomeUnknown
from bee_core.message import Sent
from bee_core.testing.conformance.guards import verbs
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import PASSING, QUEUE, at_most, becomes, key, lease, outcome, send

DEADLINE = 0.4
"""Short, because the tests sit it out."""
SLACK = 1.0


@pytest.fixture
async def hurried(server: RedisServer) -> AsyncIterator[RedisBroker]:
    async with RedisBroker(server.url, deadline=DEADLINE, pool_size=40) as broker:
        await broker.stats(QUEUE)
        yield broker


async def test_no_verb_waits_longer_than_its_deadline_for_a_silent_server(
    server: RedisServer, hurried: RedisBroker
) -> None:
    calls = {**verbs(hurried, QUEUE), "queues": hurried.queues}
    for _ in range(2):  # the second time over connections that are known to work
        await asyncio.gather(*(outcome(call()) for call in calls.values()))

    with server.frozen(), at_most(DEADLINE + SLACK):
        ends = await asyncio.gather(*(outcome(call()) for call in calls.values()))

    found = dict(zip(calls, map(type, ends), strict=True))
    assert type(None) is found.pop("wait")  # it had no time to wait
    assert {OutcomeUnknown} == set(found.values()), found


async def test_a_server_that_falls_silent_while_foreign_data_is_named_does_not_prolong_the_call(
    server: RedisServer, hurried: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.ask("SET", key("msg"), "mine")
    name = hurried._foreign

    async def name_in_silence(*arguments: Any) -> str:
        with server.frozen():
            return await name(*arguments)

    monkeypatch.setattr(hurried, "_foreign", name_in_silence)
    with pytest.raises(BrokerMisconfigured, match="foreign data"), at_most(SLACK):
        await lease(hurried)


async def test_a_paused_server_is_a_silent_one(server: RedisServer, hurried: RedisBroker) -> None:
    server.ask("CLIENT", "PAUSE", 900, "ALL")

    with pytest.raises(OutcomeUnknown, match="no answer within"), at_most(DEADLINE + SLACK):
        await send(hurried, "a")


async def test_the_answer_that_came_too_late_is_nobody_elses(
    server: RedisServer, hurried: RedisBroker
) -> None:
    await send(hurried, "a", "b", "c")

    for _ in range(3):
        await asyncio.gather(hurried.stats(QUEUE), hurried.stats(QUEUE))  # two connections are up
        with server.frozen():
            ends = await asyncio.gather(
                outcome(lease(hurried, 1, duration=0.001)), outcome(hurried.stats(QUEUE))
            )
        assert [OutcomeUnknown] * 2 == [type(end) for end in ends]
        # The late answers arrive now, at connections that nobody reads any more.
        assert [Sent.KEPT] == await send(hurried, "a")
        assert 3 == (await hurried.stats(QUEUE)).live


async def test_a_server_that_accepts_and_says_nothing_is_unavailable(server: RedisServer) -> None:
    """Nothing of the verb was sent yet, and that is known."""
    async with RedisBroker(server.url, deadline=DEADLINE) as broker:
        with server.frozen(), at_most(DEADLINE + SLACK):
            assert isinstance(await outcome(send(broker, "a")), BrokerUnavailable)

        assert [Sent.CREATED] == await send(broker, "a")


async def test_many_first_calls_share_their_deadline(server: RedisServer) -> None:
    """They wait for one of them to look at the server: not one after the other."""
    async with RedisBroker(server.url, deadline=DEADLINE) as broker:
        with server.frozen(), at_most(DEADLINE + SLACK):
            ends = await asyncio.gather(*(outcome(send(broker, str(n))) for n in range(50)))

        assert {BrokerUnavailable} == {type(end) for end in ends}
        assert [Sent.CREATED] == await send(broker, "a")


async def test_more_calls_than_connections_wait_for_their_turn(server: RedisServer) -> None:
    async with RedisBroker(server.url, pool_size=2) as broker:
        sent = await asyncio.gather(*(send(broker, str(n)) for n in range(500)))

        assert [[Sent.CREATED]] * 500 == sent
        assert int(server.ask("INFO", "clients")["connected_clients"]) <= 3


async def test_calls_that_get_no_connection_say_so_within_the_deadline(server: RedisServer) -> None:
    async with RedisBroker(server.url, pool_size=2, deadline=DEADLINE) as broker:
        await asyncio.gather(*(broker.stats(QUEUE) for _ in range(5)))

        with server.frozen(), at_most(DEADLINE + SLACK):
            ends = await asyncio.gather(*(outcome(broker.stats(QUEUE)) for _ in range(20)))

        unavailable = [end for end in ends if isinstance(end, BrokerUnavailable)]
        assert 2 == sum(isinstance(end, OutcomeUnknown) for end in ends)
        assert 18 == len(unavailable)
        assert "each of the 2 connections is in use" in str(unavailable[0])
        assert [Sent.CREATED] == await send(broker, "a")


async def test_a_wait_may_be_longer_than_any_deadline(server: RedisServer) -> None:
    async with RedisBroker(server.url, deadline=0.05) as broker:
        await lease(broker)
        waiting = asyncio.create_task(broker.wait(QUEUE, timeout=30))
        await asyncio.sleep(0.3)  # several deadlines
        assert not waiting.done()

        async with RedisBroker(server.url) as other:
            await send(other, "a")

        await asyncio.wait_for(waiting, 5)


async def test_a_wait_at_a_silent_server_is_over_after_its_timeout(
    server: RedisServer, hurried: RedisBroker
) -> None:
    await hurried.wait(QUEUE, timeout=0.01)

    with server.frozen(), at_most(SLACK):
        await hurried.wait(QUEUE, timeout=0.1)


async def test_closing_is_not_held_up_by_a_silent_server(
    server: RedisServer, hurried: RedisBroker
) -> None:
    waiting = asyncio.create_task(hurried.wait(QUEUE, timeout=600))
    with server.frozen():
        calling = asyncio.create_task(outcome(hurried.stats(QUEUE)))
        await asyncio.sleep(0.02)

        with at_most(SLACK):
            await hurried.aclose()

            with pytest.raises(BrokerClosed):
                await waiting
            assert isinstance(await calling, PASSING)


async def test_a_broker_closed_while_it_opens_stays_closed(server: RedisServer) -> None:
    broker = RedisBroker(server.url)
    opening = [asyncio.create_task(outcome(broker.stats(QUEUE))) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    await broker.aclose()

    ends = await asyncio.gather(*opening)
    assert all(isinstance(end, BrokerClosed | BrokerUnavailable) for end in ends), ends
    assert "1" == str(server.ask("INFO", "clients")["connected_clients"])


async def test_a_broker_closed_while_calls_connect_leaves_no_connection_behind(
    server: RedisServer,
) -> None:
    def connected() -> int:
        return int(server.ask("INFO", "clients")["connected_clients"])

    for turns in range(20):
        broker = RedisBroker(server.url)
        await broker.stats(QUEUE)
        calling = [asyncio.create_task(outcome(broker.stats(QUEUE))) for _ in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)

        await broker.aclose()
        await asyncio.gather(*calling)

        await becomes(lambda: connected() == 1, f"connected after {turns} turns", patience=2)
