"""Many workers with schedules on one memory broker, on a clock that is moved, killed at will."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import bee_core as bee
from bee_core.clock import Alarm
from bee_core.events import Event, WorkerStarted
from bee_core.stored import State, Stored
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, until

START = datetime(2026, 3, 28, 18, tzinfo=UTC).timestamp()
KEPT = bee.Policy(on_success=bee.Archive(), on_error=bee.Archive(), on_stall=bee.Repeat(None))


class StoreClock:
    """The clock of the store, which can be set forward and back while time goes on."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.offset = 0.0

    def now(self) -> float:
        return self._clock.now() + self.offset

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def alarm(self) -> Alarm:
        return self._clock.alarm()


class Fleet:
    """Workers that come and go, and what they leave behind in the store."""

    def __init__(self, start: float = START) -> None:
        self.clock = ManualClock(start)
        self.store_clock = StoreClock(self.clock)
        self.store = MemoryBroker(clock=self.store_clock)
        self.broker = FaultyBroker(self.store)
        self.events: list[Event] = []
        self.workers: dict[bee.Worker[Work], asyncio.Task[None]] = {}

    async def handle(self, job: Work) -> None:
        if job.what == "fail":
            raise RuntimeError("it fails")

    def worker(self, *schedules: bee.Schedule[Work]) -> bee.Worker[Work]:
        return bee.Worker(
            self.broker,
            "jobs",
            Work,
            self.handle,
            policy=KEPT,
            poll=86_400.0,
            lease=LEASE,
            observers=(self.events.append,),
            schedules=schedules,
            clock=self.clock,
        )

    async def start(self, *schedules: bee.Schedule[Work], count: int = 1) -> list[bee.Worker[Work]]:
        """Start workers at once, and return when all have come to rest."""
        workers = [self.worker(*schedules) for _ in range(count)]
        expected = len(self.heard(WorkerStarted)) + count
        for worker in workers:
            self.workers[worker] = asyncio.create_task(worker.run())
        await until(lambda: len(self.heard(WorkerStarted)) >= expected)
        await self.clock.settle()
        return workers

    async def kill(self, worker: bee.Worker[Work]) -> None:
        worker.kill()
        await self.workers.pop(worker)

    async def stop(self) -> None:
        for worker in list(self.workers):
            await self.kill(worker)

    def heard(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def stored(self, state: State) -> list[Stored]:
        found, after = list[Stored](), None
        while True:
            page = await self.store.scan("jobs", state, after=after)
            found += page.items
            if (after := page.after) is None:
                return found

    async def sent(self) -> Counter[str]:
        """How many jobs have ended, by id. A run that was cut off and repeated is one."""
        return Counter(stored.id for stored in await self.stored(State.ARCHIVED))

    async def live(self) -> list[str]:
        states = (State.READY, State.DELAYED, State.LEASED, State.BLOCKED)
        found = [stored for state in states for stored in await self.stored(state)]
        return sorted(stored.id for stored in found)


@asynccontextmanager
async def fleet(start: float = START) -> AsyncIterator[Fleet]:
    ships = Fleet(start)
    try:
        yield ships
    finally:
        await ships.stop()


def instants(
    schedules: Sequence[bee.Schedule[Work]], start: float, end: float, *, step: float = 0.0
) -> Counter[str]:
    """The ids of all jobs that are to be sent in a stretch of time, one each."""
    expected: Counter[str] = Counter()
    for schedule in schedules:
        instant = start
        while (instant := schedule.timing.after(instant)) <= end - step:
            expected[schedule.job_id(instant)] += 1
    return expected
