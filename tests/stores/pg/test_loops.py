"""Event loops, threads and closing: each broker in its own, and none leaves anything behind."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from bee_core.errors import BrokerClosed, BrokerError, BrokerUnavailable
from bee_pg import PgBroker
from tests.servers import PgServer

from .support import (
    QUEUE,
    again,
    at_most,
    becomes,
    brokers,
    connected,
    drained,
    ids,
    lease,
    outcome,
    send,
)


async def test_a_broker_belongs_to_the_event_loop_that_first_used_it(broker: PgBroker) -> None:
    def elsewhere() -> Any:
        return asyncio.run(outcome(broker.stats(QUEUE)))

    error = await asyncio.to_thread(elsewhere)
    assert isinstance(error, BrokerClosed)
    assert "clone" in str(error)
    assert 0 == (await broker.stats(QUEUE)).live


async def test_clones_work_in_threads_of_their_own(url: str, broker: PgBroker) -> None:
    await send(broker, *(f"m{n:03}" for n in range(200)))

    async def work(clone: PgBroker) -> list[str]:
        async with clone:
            await clone.wait(QUEUE, timeout=0.01)
            return ids(await lease(clone, 50))

    came = await asyncio.gather(
        *(asyncio.to_thread(asyncio.run, work(broker.clone())) for _ in range(4))
    )
    assert 200 == len({id for some in came for id in some})
    await becomes(lambda: connected(url) <= 1, "clones leave connections behind")


async def test_a_clone_outlives_what_it_came_from(url: str, broker: PgBroker) -> None:
    clone = broker.clone()
    await broker.aclose()
    await send(clone, "a")
    assert ["a"] == await drained(clone)
    await clone.aclose()
    with pytest.raises(BrokerClosed):
        await clone.stats(QUEUE)


def test_a_broker_whose_event_loop_is_gone_can_be_closed(pg: PgServer) -> None:
    url = pg.database()
    broker = PgBroker(url, migrate=True)

    async def use() -> None:
        await send(broker, "a")
        await broker.wait("other", timeout=0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use())
        asyncio.run(broker.aclose())
        gc.collect()
    asyncio.run(becomes(lambda: connected(url) == 0, "connections are left"))


async def test_closing_while_calls_are_under_way_leaves_no_connection(
    url: str, broker: PgBroker
) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    await broker.aclose()
    for turns in range(25):
        busy = PgBroker(url, pool_size=2)
        if turns % 2:
            await busy.stats(QUEUE)
        calls = [outcome(busy.stats(QUEUE)) for _ in range(6)]
        calls += [outcome(busy.wait(QUEUE, timeout=60)) for _ in range(2)]
        under_way = [asyncio.create_task(call) for call in calls]
        for _ in range(2 * turns):
            await asyncio.sleep(0)

        with at_most(2):
            await busy.aclose()

        with at_most(2):
            ends = await asyncio.gather(*under_way)
        assert any(isinstance(end, BrokerError) for end in ends), turns
        assert isinstance(ends[-1], BrokerClosed | BrokerUnavailable), (turns, ends[-1])
        with pytest.raises(BrokerClosed):
            await busy.stats(QUEUE)
        await busy.aclose()
    gc.collect()
    await asyncio.sleep(0)
    await becomes(lambda: connected(url) == 0, "connections are left")
    assert [] == complaints


async def test_calls_that_wait_for_a_place_are_sent_away_when_the_broker_is_closed(
    url: str,
) -> None:
    async with brokers(url, 1, pool_size=1) as (broker,):
        await send(broker, "a")
        under_way = [asyncio.create_task(outcome(lease(broker, 1))) for _ in range(20)]
        await asyncio.sleep(0)
        await broker.aclose()
        ends = await asyncio.gather(*under_way)
        assert all(isinstance(end, BrokerError) for end in ends[1:]), ends


async def test_closing_does_not_wait_for_a_silent_server(own: PgServer) -> None:
    async with brokers(own.database(), 1) as (broker,):
        await broker.wait(QUEUE, timeout=0.01)
        with own.frozen(), at_most(2):
            await broker.aclose()


async def test_who_closes_is_no_longer_listed_as_idle(url: str, broker: PgBroker) -> None:
    async with brokers(url, 2) as (leaving, staying):
        await leaving.wait(QUEUE, timeout=0.01)
        await leaving.aclose()
        waiting = asyncio.create_task(staying.wait(QUEUE, timeout=60))
        await becomes(lambda: staying._ears().is_awaited(QUEUE), "it does not wait")
        await becomes(lambda: not staying._pool._busy, "it does not wait")
        await again(lambda: send(broker, "a"))
        await asyncio.wait_for(waiting, 4)
