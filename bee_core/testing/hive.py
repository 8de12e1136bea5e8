"""Your own hive under test: on a memory broker, on a clock that you move.

Jobs go through the same codec, the same worker and the same broker contract as in production.
Nothing sleeps: `await bees.advance(3600)` fires delays, repeats, timeouts and leases in order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bee_core.broker import Store
from bee_core.duration import Duration
from bee_core.events import AttemptStarted, Event
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.message import Counters, Note
from bee_core.registry import backend
from bee_core.stored import State, Stored
from bee_core.testing.again import DeliveringAgain, Runs, check_runs
from bee_core.testing.clock import ManualClock
from bee_core.testing.faults import FaultyBroker
from bee_core.ticks import message_id

_PATIENCE = 10.0


class ArchivedJob(msgspec.Struct, frozen=True):
    """A job in the archive: `job` is None if its bytes cannot be decoded."""

    id: str
    job: Any
    note: Note | None
    counters: Counters


class HiveUnderTest:
    """What a test does with a hive that is working: send, move time, look, break things."""

    def __init__(self, hive: Hive, broker: FaultyBroker, clock: ManualClock) -> None:
        self.hive = hive
        self.broker = broker
        self.clock = clock
        self.events: list[Event] = []
        """Everything observers heard, in order."""
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the jobs whose handler was called, in order, repeats included.

        The messages that keep schedules are not among them; the jobs that they send are.
        """
        started = [event.id for event in self.events if isinstance(event, AttemptStarted)]
        return [id for id in started if not id.startswith(message_id(""))]

    async def advance(self, duration: Duration) -> None:
        """Move time forward; everything that falls due on the way happens in order."""
        await self.clock.advance(duration)

    async def drain(self) -> None:
        """Let everything that is ready run to its end, without moving time.

        Waits for handlers in threads and processes too; raises if one does not end.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            await self.clock.settle()
            queues = self.hive.queues.values()
            busy = [q.name for q in queues if q.handlers.any and await self._is_busy(q.name)]
            if not busy:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"queues {busy} did not drain: does a handler, or a rate, wait for time?"
                )
            await asyncio.sleep(0.001)

    async def pending(self, queue: str | HiveQueue[Any]) -> Sequence[Any]:
        """The jobs that wait, ready ones first, each group in the order it will run."""
        found = await self._scan(queue, State.READY) + await self._scan(queue, State.DELAYED)
        return [self._decode(queue, stored) for stored in found]

    async def archived(self, queue: str | HiveQueue[Any]) -> Sequence[ArchivedJob]:
        """What is in the archive, newest first."""
        return [
            ArchivedJob(s.id, self._decode(queue, s), s.note, s.counters)
            for s in await self._scan(queue, State.ARCHIVED)
        ]

    async def crash(self) -> None:
        """Kill the workers as -9 would: nothing is settled, leases run out by themselves."""
        self.hive.kill()
        if self._task is not None:
            await self._task
        self._task = None

    async def start(self) -> None:
        """Start workers (again)."""
        if self._task is not None and self.hive.stopping:
            await self._task
        if self._task is None or self._task.done():
            self._task = await self.hive.start()
            await self.clock.settle()

    async def stop(self) -> None:
        """Stop the workers gracefully, interrupting what still runs."""
        self.hive.stop(grace=0)
        task, self._task = self._task, None
        deadline = time.monotonic() + _PATIENCE
        while task is not None and not task.done():
            await self.clock.advance(1)  # the grace that handlers get is in this clock's time
            await asyncio.wait({task}, timeout=0.001)
            if time.monotonic() > deadline:  # something was left held up
                self.hive.kill()
        if task is not None:
            task.result()

    async def _is_busy(self, name: str) -> bool:
        stats = await self.broker.inner.stats(name)
        return not stats.paused and bool(stats.ready or stats.leased)

    async def _scan(self, queue: str | HiveQueue[Any], state: State) -> list[Stored]:
        name, found, after = _name(queue), list[Stored](), None
        while True:
            page = await self.broker.inner.scan(name, state, after=after)
            found += page.items
            if (after := page.after) is None:
                return found

    def _decode(self, queue: str | HiveQueue[Any], stored: Stored) -> Any:
        try:
            return self.hive.queues[_name(queue)].decode(stored.id, stored.body)
        except Exception:  # a test that wants to know looks at the bytes
            return None


@asynccontextmanager
async def running(
    hive: Hive,
    *,
    clock: ManualClock | None = None,
    start: bool = True,
    runs: Runs = "once",
    **options: Any,
) -> AsyncIterator[HiveUnderTest]:
    """Your hive, working on a memory broker and a clock that stands still until you move it.

    `start=False` to send first and call `await bees.start()` yourself. `runs="twice"` delivers
    each job again when its handler has succeeded, `runs="killed"` kills its worker then. Other
    options are those of `Worker`. Sends through the hive's queues go to the memory broker
    meanwhile.
    """
    clock = ManualClock() if clock is None else clock
    store: Store = backend("memory")(clock=clock)
    if check_runs(runs) != "once":
        store = DeliveringAgain(store, runs)
    broker = FaultyBroker(store)
    bees = HiveUnderTest(hive, broker, clock)
    options = {"poll": 86_400.0, "observers": (bees.events.append,)} | options
    with hive.substitute(broker, clock=clock, **options):
        async with hive:
            if start:
                await bees.start()
            try:
                yield bees
            finally:
                await bees.stop()


def _name(queue: str | HiveQueue[Any]) -> str:
    return queue if isinstance(queue, str) else queue.name
