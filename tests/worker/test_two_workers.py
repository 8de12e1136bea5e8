"""Two workers on one queue, each with a network that fails: no job runs twice at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, until

POLICY = bee.Policy(
    timeout=200,
    on_success=bee.Archive(),
    on_error=bee.Repeat(None),
    on_timeout=bee.Repeat(None),
    on_stall=bee.Repeat(None),
)
ERRORS = [bee.BrokerUnavailable("x"), bee.OutcomeUnknown("x"), OSError("x")]


class Pair:
    """Two workers, what runs on either, and whatever ran on both at once."""

    def __init__(self, clock: ManualClock, chance: random.Random) -> None:
        self.clock = clock
        self.chance = chance
        self.store = MemoryBroker(clock=clock)
        self.running: Counter[str] = Counter()
        self.overlaps: list[str] = []
        self.events: list[bee.Event] = []
        self.brokers: list[FaultyBroker] = []
        self.workers: list[bee.Worker[Work]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def handle(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.running[delivery.id] += 1
        if self.running[delivery.id] > 1:
            self.overlaps.append(delivery.id)
        try:
            await self.clock.sleep(self.chance.choice([0, 1, 20, 3 * LEASE]))
            if self.chance.random() < 0.2:
                raise ValueError("no")
        finally:
            self.running[delivery.id] -= 1

    async def start(self, place: int) -> None:
        """Put a new worker, with a new network, into one of the two places."""
        broker = FaultyBroker(self.store.clone())
        worker = bee.Worker(
            broker,
            "jobs",
            Work,
            self.handle,
            clock=self.clock,
            policy=POLICY,
            concurrency=3,
            poll=100,
            observers=(self.events.append,),
        )
        self.brokers[place:] = [broker, *self.brokers[place + 1 :]]
        self.workers[place:] = [worker, *self.workers[place + 1 :]]
        task = asyncio.create_task(worker.run())
        self.tasks[place:] = [task, *self.tasks[place + 1 :]]
        await worker.started()

    async def end(self, place: int, *, kill: bool) -> None:
        worker, task = self.workers[place], self.tasks[place]
        if kill:
            worker.kill()
        else:
            worker.stop(grace=self.chance.choice([0, 5]))
        for _ in range(30):
            await self.clock.advance(1)
            await asyncio.sleep(0)
            if task.done():
                break
        await until(task.done)
        task.result()

    async def trouble(self, place: int) -> None:
        broker, chance = self.brokers[place], self.chance
        match chance.choice(["fault", "fault", "down", "kill", "stop", "nothing"]):
            case "fault":
                verb = chance.choice(["lease", "settle", "extend", "wait"])
                when = chance.choice(["before", "after"])
                error, times = chance.choice(ERRORS), chance.choice([1, 3, 40])
                broker.fail(verb, error, when=when, times=times)  # type: ignore[arg-type]
            case "down":
                broker.go_down(chance.choice(ERRORS))
                await self.clock.advance(chance.random() * 3 * LEASE)
                broker.come_back()
            case "kill" | "stop" as how:
                await self.end(place, kill=how == "kill")
                await self.start(place)
            case _:
                pass


@pytest.mark.parametrize("seed", range(20))
async def test_no_job_runs_on_both_at_once_and_every_job_ends(
    seed: int, bee_clock: ManualClock
) -> None:
    chance = random.Random(seed)
    pair = Pair(bee_clock, chance)
    await pair.start(0)
    await pair.start(1)
    queue = bee.Queue(pair.store, "jobs", Work)
    for number in range(12):
        await queue.send(Work(), id=str(number), delay=chance.random() * 20)
    for _ in range(20):
        await pair.trouble(chance.randrange(2))
        await bee_clock.advance(chance.random() * 25)
    for broker in pair.brokers:
        for faults in broker._script.faults.values():
            faults.clear()
    await bee_clock.advance(5000)
    stats = await pair.store.stats("jobs")
    for place in (0, 1):
        await pair.end(place, kill=False)

    assert [] == pair.overlaps
    assert (0, {"succeeded": 12}) == (stats.live, dict(stats.archived))
    settled = [e for e in pair.events if isinstance(e, AttemptSettled)]
    done = Counter(e.id for e in settled if isinstance(e.disposition, bee.Archive))
    assert set(done.values()) <= {1}
