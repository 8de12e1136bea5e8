"""Cancelled at any await: nothing half done, no connection lost, and the next call works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from bee_core.disposition import Archive, Delete
from bee_core.message import Draft, Receipt, Sent, Settlement
from bee_core.stored import State
from bee_pg import PgBroker

from .support import (
    QUEUE,
    becomes,
    brokers,
    connected,
    drained,
    ids,
    lease,
    lease_one,
    resting,
    send,
)

Call = Callable[[PgBroker], Awaitable[object]]

VERBS: dict[str, Call] = {
    "send": lambda b: b.send(QUEUE, [Draft(f"x{n}", b"x" * 2000) for n in range(50)]),
    "send_one": lambda b: b.send(QUEUE, [Draft("x1", b"x" * 2000)]),
    "send_plain": lambda b: b.send(QUEUE, [Draft(f"y{n:02}", b"x" * 2000) for n in range(50)]),
    "lease": lambda b: b.lease(QUEUE, limit=5, duration=0.001, holder="w"),
    "extend": lambda b: b.extend(QUEUE, [Receipt("x1", 1)] * 20, duration=60),
    "settle": lambda b: b.settle(QUEUE, [Settlement(Receipt("x1", 1), Archive())] * 20),
    "cancel": lambda b: b.cancel(QUEUE, [f"x{n}" for n in range(50)], to=Delete()),
    "stats": lambda b: b.stats(QUEUE),
    "get": lambda b: b.get(QUEUE, "x1"),
    "scan": lambda b: b.scan(QUEUE, State.READY),
    "restore": lambda b: b.restore(QUEUE, ["x1"]),
    "prune": lambda b: b.prune(QUEUE, keep=1),
    "purge": lambda b: b.purge("other"),
    "queues": lambda b: b.queues(),
    "drop": lambda b: b.drop("other"),
    "pause": lambda b: b.pause("other"),
    "resume": lambda b: b.resume("other"),
    "workers": lambda b: b.workers(QUEUE),
    "wait": lambda b: b.wait(QUEUE, timeout=0.02),
}
MOST_TURNS = 200


async def interrupted(work: Awaitable[object], turns: int) -> bool:
    """Begin, cancel after so many turns of the event loop. Whether it was over before that."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
        if task.done():
            break
    over = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return over


async def turns_to_try(call: Callable[[], Awaitable[object]]) -> list[int]:
    """Every moment up to the end of the call: close together first, further apart later."""
    for turns in count(1):
        if await interrupted(call(), turns * 8) or turns * 8 > MOST_TURNS:
            longest = turns * 8
            return [*range(min(longest, 20)), *range(20, longest, 13)]
    raise AssertionError


@pytest.mark.parametrize("verb", VERBS)
async def test_a_cancelled_call_harms_no_other_and_leaves_no_connection(
    url: str, verb: str
) -> None:
    async with brokers(url, 1, pool_size=2) as (broker,):
        await send(broker, "other", queue="other")

        for turns in await turns_to_try(lambda: VERBS[verb](broker)):
            await interrupted(VERBS[verb](broker), turns)

            mark = f"mark {turns}"
            assert [Sent.CREATED] == list(await broker.send("marks", [Draft(mark, b"body")]))
            stored = await broker.get("marks", mark)
            assert stored is not None
            assert mark == stored.id
        await becomes(lambda: connected(url) <= 3, "connections are left")
    await becomes(lambda: connected(url) == 0, "connections outlive the broker")


async def test_a_call_cancelled_while_it_connects_leaves_no_connection(url: str) -> None:
    async with brokers(url, 1) as (migrated,):
        for turns in [*range(25), *range(25, 120, 10)]:
            async with PgBroker(url, pool_size=1) as broker:
                await interrupted(send(broker, "a"), turns)

                assert 0 == (await broker.stats("other")).live
                assert [Sent.CREATED] == await send(broker, f"mark {turns}")
        await migrated.aclose()
        await becomes(lambda: connected(url) == 0, "connections are left")


async def test_cancelled_leases_lose_no_message(broker: PgBroker) -> None:
    wanted = [f"m{n:03}" for n in range(100)]
    await send(broker, *wanted)

    for turns in range(40):
        await interrupted(broker.lease(QUEUE, limit=5, duration=0.01, holder="w"), turns)

    assert wanted == sorted(await drained(broker))


async def test_cancelled_settlements_are_whole_or_not_at_all(broker: PgBroker) -> None:
    for turns in range(30):
        await send(broker, "a")
        held = await lease_one(broker)
        then = [Draft(f"then {n}", b"") for n in range(3)]
        settlement = Settlement(held.receipt, Archive(), then=then)

        await interrupted(broker.settle(QUEUE, [settlement]), turns)
        lost = await broker.settle(QUEUE, [settlement])

        assert lost <= {held.receipt}
        assert ["then 0", "then 1", "then 2"] == sorted(await drained(broker))
        assert 1 == await broker.prune(QUEUE)


async def test_cancelled_sends_are_whole_or_not_at_all(broker: PgBroker) -> None:
    for turns in range(30):
        queue = f"q{turns}"
        await interrupted(broker.send(queue, [Draft(str(n), b"") for n in range(20)]), turns)
        await asyncio.sleep(0)
        assert (await broker.stats(queue)).live in (0, 20)


async def test_cancelled_waits_lose_neither_message_nor_wake_up(url: str) -> None:
    """Two processes wait; whichever is cancelled, whenever, the other one is woken."""
    async with brokers(url, 3) as (first, second, sender):
        for turns in range(30):
            waiting = asyncio.create_task(first.wait(QUEUE, timeout=60))
            await becomes(lambda: first._ears().is_awaited(QUEUE), "the first does not wait")
            other = asyncio.create_task(second.wait(QUEUE, timeout=60))
            await becomes(lambda: second._ears().is_awaited(QUEUE), "the second does not wait")
            await becomes(lambda: resting(url) == 2, "they are not listed")
            await asyncio.sleep(0.01)

            await send(sender, f"m{turns}")
            for _ in range(turns % 15):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

            if waiting.cancelled():  # else it has heard of the message itself
                await asyncio.wait_for(other, 4)  # it would look by itself after five seconds
            else:
                other.cancel()
                await asyncio.gather(other, return_exceptions=True)
            assert [f"m{turns}"] == ids(await lease(sender))
