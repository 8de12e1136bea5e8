"""A message that somebody else has locked in the store: its worker does without it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any

import bee_core as bee
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerRecovered,
    BrokerTrouble,
    Event,
)
from bee_core.message import Receipt, Settlement
from bee_memory import MemoryBroker

from .support import Work, nothing, until


class Locking(MemoryBroker):
    """A store in which messages can be locked: whatever is about one of them fails as a whole."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.locked: set[str] = set()
        self.calls: list[tuple[str, int]] = []

    def clone(self) -> Locking:
        return self

    async def aclose(self) -> None:
        pass

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        self._check("settle", [one.receipt.id for one in settlements])
        return await super().settle(queue, settlements)

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        self._check("extend", [one.id for one in receipts])
        return await super().extend(queue, receipts, **options)

    def _check(self, verb: str, ids: Sequence[str]) -> None:
        self.calls.append((verb, len(ids)))
        if self.locked & set(ids):
            raise bee.BrokerLocked("somebody has locked it")


@asynccontextmanager
async def at_work(worker: bee.Worker[Work]) -> AsyncIterator[None]:
    run = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await run


async def hang(job: Work) -> None:
    await asyncio.Event().wait()


def told(events: Iterable[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_all_but_the_one_that_is_locked_are_settled() -> None:
    broker, events = Locking(), list[Event]()
    broker.locked = {"77"}
    worker = bee.Worker(broker, "jobs", Work, nothing, concurrency=200, observers=[events.append])
    queue = worker.queue
    for number in range(200):
        await queue.send(Work(), id=str(number))
    async with at_work(worker):
        await until(lambda: len(told(events, AttemptSettled)) == 199)
        await until(lambda: ("settle", 1) in broker.calls)
        assert ["settle"] == [event.verb for event in told(events, BrokerTrouble)]
        assert [] == told(events, BrokerRecovered)

        await queue.send(Work(), id="later")
        await until(lambda: len(told(events, AttemptSettled)) == 200)
        broker.locked = set()
        await until(lambda: len(told(events, AttemptSettled)) == 201)

    assert 0 == (await broker.stats("jobs")).live
    assert [] == told(events, AttemptLost)
    assert ["settle"] == [event.verb for event in told(events, BrokerRecovered)]


async def test_who_stops_waits_no_longer_for_what_is_locked_than_for_a_store_that_is_away() -> None:
    broker = Locking()
    broker.locked = {"a"}
    worker = bee.Worker(broker, "jobs", Work, nothing, observers=())
    for id in ("a", "b"):
        await worker.queue.send(Work(), id=id)
    async with at_work(worker):
        await until(lambda: broker.calls.count(("settle", 1)) > 1)

    stats = await broker.stats("jobs")
    assert (1, 1) == (stats.live, stats.leased), "its lease runs out, and somebody else has it"


async def test_all_but_the_one_that_is_locked_are_renewed() -> None:
    broker, events = Locking(), list[Event]()
    options: dict[str, Any] = {"policy": bee.Policy(timeout=None), "lease": 1.5, "grace": 0}
    worker = bee.Worker(
        broker, "jobs", Work, hang, concurrency=50, observers=[events.append], **options
    )
    for number in range(50):
        await worker.queue.send(Work(), id=str(number))
    async with at_work(worker):
        await until(lambda: len(told(events, AttemptStarted)) == 50)
        broker.locked = {"7"}
        await until(lambda: told(events, AttemptLost))  # the others would be by now, too

        assert ["7"] == [event.id for event in told(events, AttemptLost)]
        assert {49, 50} >= {(await broker.stats("jobs")).leased}
