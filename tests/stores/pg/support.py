"""Short ways to say what these tests say often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from bee_core.broker import Broker, Store
from bee_core.disposition import Delete, Disposition
from bee_core.errors import BrokerError, BrokerUnavailable, OutcomeUnknown
from bee_core.message import Draft, Lease, Sent, Settlement
from bee_core.stored import Stored
from bee_pg import PgBroker

QUEUE = "q"
PASSING = (BrokerUnavailable, OutcomeUnknown)


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


async def drained(broker: Store, *, queue: str = QUEUE, patience: float = 10.0) -> list[str]:
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
async def brokers(url: str, number: int, **options: Any) -> AsyncIterator[list[PgBroker]]:
    """So many brokers, each with connections of its own, on a schema that is there."""
    made = [PgBroker(url, migrate=True, **options) for _ in range(number)]
    try:
        await made[0].queues()
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


def ask(url: str, sql: str, *parameters: object) -> list[Any]:
    """The rows of a statement, over a connection of its own, committed."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


def connected(url: str) -> int:
    """How many connections bee has to this database."""
    found = ask(
        url,
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and application_name = 'bee'",
    )
    return int(found[0][0])


def resting(url: str) -> int:
    """How many are listed as idle."""
    found = ask(url, "select count(*) from bee.idle where until > clock_timestamp()")
    return int(found[0][0])
