"""Short ways to say what these tests say often."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from bee_core.broker import Broker, Store
from bee_core.disposition import Delete, Disposition
from bee_core.errors import BrokerError, BrokerUnavailable, OutcomeUnknown
from bee_core.message import Draft, Lease, Sent, Settlement
from bee_core.stored import Stored
from bee_redis import RedisBroker
from bee_redis.keys import KINDS
from tests.servers import RedisServer

QUEUE = "q"
PASSING = (BrokerUnavailable, OutcomeUnknown)


def key(part: str, queue: str = QUEUE) -> str:
    """The name of a key on the server."""
    assert part in KINDS
    return f"bee:{{{queue}}}:{part}"


async def send(broker: Broker, *ids: str, queue: str = QUEUE, **options: Any) -> list[Sent]:
    """Send messages with these ids."""
    return list(await broker.send(queue, [Draft(id, b"body", **options) for id in ids]))


async def lease(
    broker: Broker, limit: int = 100, *, queue: str = QUEUE, duration: float = 60.0
) -> list[Lease]:
    """Take what is ready."""
    return list(await broker.lease(queue, limit=limit, duration=duration, holder="w"))


async def lease_one(broker: Broker, *, queue: str = QUEUE, duration: float = 60.0) -> Lease:
    """Take the next message; there must be one."""
    (held,) = await lease(broker, 1, queue=queue, duration=duration)
    return held


async def settle(
    broker: Broker,
    leases: Iterable[Lease],
    disposition: Disposition = Delete(),
    *,
    queue: str = QUEUE,
) -> set[str]:
    """End leases in one way. The ids of those that were lost."""
    settlements = [Settlement(held.receipt, disposition) for held in leases]
    return {receipt.id for receipt in await broker.settle(queue, settlements)}


def ids(found: Iterable[Lease | Stored]) -> list[str]:
    return [one.receipt.id if isinstance(one, Lease) else one.id for one in found]


async def drained(
    broker: Store,
    *,
    queue: str = QUEUE,
    patience: float = 10.0,
    between: Callable[[], object] = lambda: None,
) -> list[str]:
    """Lease and delete until nothing is left: what came, in order. Trouble is waited out."""
    came: list[str] = []
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            leases = await lease(broker, queue=queue)
            await settle(broker, leases, queue=queue)
            came += ids(leases)
            if not leases and not (await broker.stats(queue)).live:
                return came
            between()
        except PASSING:
            await asyncio.sleep(0.02)
    raise AssertionError(f"{queue} was not drained in {patience} s; so far {came}")


async def again(work: Callable[[], Awaitable[Any]], patience: float = 15.0) -> Any:
    """The result of a call that may fail for a while."""
    end = time.monotonic() + patience
    while True:
        try:
            return await work()
        except PASSING:
            assert time.monotonic() < end, "it should have worked by now"
            await asyncio.sleep(0.02)


async def becomes(true: Callable[[], bool], what: str, patience: float = 15.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + patience
    while not true():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The block takes no longer, however it ends."""
    begun = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - begun
        assert took <= seconds, f"took {took:.2f} s instead of {seconds:.2f} s at most"


@asynccontextmanager
async def brokers(url: str, number: int, **options: Any) -> AsyncIterator[list[RedisBroker]]:
    """So many brokers, each with connections of its own."""
    made = [RedisBroker(url, **options) for _ in range(number)]
    try:
        yield made
    finally:
        for broker in made:
            await broker.aclose()


async def outcome(call: Awaitable[object]) -> object:
    """What a call returns, or the BrokerError that it raises."""
    try:
        return await call
    except BrokerError as error:
        return error


def waiting_at(server: RedisServer) -> int:
    """How many connections wait for a wake-up."""
    return int(server.ask("INFO", "clients")["blocked_clients"])


def calls(server: RedisServer, *commands: str) -> Mapping[str, int]:
    """How often clients (or scripts) have sent each command since the server started."""
    stats = server.ask("INFO", "commandstats")
    return {name: int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in commands}


LONGEST = 0.1
"""Seconds that a script may take."""


@contextmanager
def no_long_scripts(server: RedisServer, broker: RedisBroker) -> Iterator[None]:
    """Nothing that the broker does inside takes the server longer than LONGEST.

    Measured in processor time: on a busy machine the server has to wait for its turn, as all of us.
    """
    run, took = broker._run, []

    async def measured(verb: str, *arguments: Any, **options: Any) -> Any:
        before = server.cpu()
        try:
            return await run(verb, *arguments, **options)
        finally:
            took.append((server.cpu() - before, verb))

    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(broker, "_run", measured)
        yield
    assert [] == [(seconds, verb) for seconds, verb in took if seconds > LONGEST]
