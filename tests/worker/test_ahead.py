"""Messages that are leased a moment before there is a slot for them. The clock is the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import bee_core as bee
from bee_core.events import AttemptLost, AttemptSettled, AttemptStarted, Event, WorkerStopped
from bee_core.message import Lease, Receipt
from bee_core.outcome import Interrupted
from bee_core.stored import State
from bee_memory import MemoryBroker

from .support import Work, until

SEEN: ContextVar[int] = ContextVar("seen", default=0)


class FarAway(MemoryBroker):
    """A store whose leases take a while; and the most that was asked of it at once."""

    asked = 0

    async def lease(self, *args: Any, **options: Any) -> Sequence[Lease]:
        self.asked = max(self.asked, options["limit"])
        await asyncio.sleep(0.01)
        leases = await super().lease(*args, **options)
        await asyncio.sleep(0.01)
        return leases


class Forgetful(FarAway):
    """One that, when it is told to, knows nothing any more of what was leased."""

    forgets = False

    def clone(self) -> Forgetful:
        return self

    async def aclose(self) -> None:
        pass

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        lost = await super().extend(queue, receipts, **options)
        return set(receipts) if self.forgets else lost


class Punctual(FarAway):
    """One in which a schedule falls due just when ten are asked for."""

    async def lease(self, *args: Any, **options: Any) -> Sequence[Lease]:
        if options["limit"] >= 10:
            now = bee.Update(payload=False, run_at="always", policy=False, reset_counts=False)
            await self.send("jobs", [bee.Draft("bee-schedule:pulse", b"", if_taken=now)])
        return await super().lease(*args, **options)


class Scene:
    """A worker for two at once. Jobs are quick until it asks for ten; from there on they stand."""

    def __init__(self, broker: FarAway, **options: Any) -> None:
        self.broker = broker
        self.gate = asyncio.Event()
        self.standing: list[int] = []
        self.events: list[Event] = []
        self.worker = bee.Worker(
            broker,
            "jobs",
            Work,
            self.handle,
            concurrency=2,
            observers=[self.events.append],
            **options,
        )

    async def handle(self, job: Work) -> None:
        if self.broker.asked >= 10:
            self.standing.append(job.number)
            await self.gate.wait()

    @property
    def given_back(self) -> int:
        """How many have been, before they ran."""
        ends = (event for event in self.events if isinstance(event, AttemptSettled))
        return sum(isinstance(event.outcome, Interrupted) for event in ends)

    async def held(self) -> int:
        return (await self.broker.stats("jobs")).leased

    async def released(self) -> int:
        page = await self.broker.scan("jobs", state=State.READY, limit=1000)
        return sum(stored.counters.releases for stored in page.items)


@asynccontextmanager
async def at_standstill(broker: FarAway, **options: Any) -> AsyncIterator[Scene]:
    """A worker that has come to two that stand still, and has asked for ten before that."""
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(2000))
    scene = Scene(broker, **options)
    running = asyncio.create_task(scene.worker.run())
    try:
        await until(lambda: len(scene.standing) == 2)
        await until(lambda: scene.worker.health().held > 2)
        yield scene
    finally:
        scene.gate.set()
        scene.worker.stop(grace=0)
        await running


async def test_quick_jobs_are_leased_before_there_is_a_slot_for_them() -> None:
    async with at_standstill(FarAway()) as scene:
        assert scene.worker.health().running == 2
        assert await scene.held() > 2


async def test_what_waits_too_long_for_a_slot_is_given_back_at_no_cost() -> None:
    async with at_standstill(FarAway()) as scene:
        await until(lambda: scene.given_back and scene.worker.health().held == 2)

        assert await scene.held() == 2
        assert await scene.released() == scene.given_back


async def test_what_was_given_back_is_not_leased_again_until_a_slot_is_free() -> None:
    async with at_standstill(FarAway()) as scene:
        await until(lambda: scene.given_back and scene.worker.health().held == 2)
        released = await scene.released()

        await asyncio.sleep(0.7)

        assert (await scene.held(), await scene.released()) == (2, released)


async def test_what_was_given_back_runs_in_its_old_order() -> None:
    async with at_standstill(FarAway()) as scene:
        await until(lambda: scene.given_back and scene.worker.health().held == 2)

        leases = await MemoryBroker.lease(
            scene.broker, "jobs", limit=3, duration=30.0, holder="another"
        )

        numbers = [bee.JsonCodec(Work).decode(lease.body).number for lease in leases]
        after = max(scene.standing)
        assert numbers == [after + 1, after + 2, after + 3]


async def test_a_worker_that_stops_gives_back_what_has_no_slot_yet() -> None:
    async with at_standstill(FarAway()) as scene:
        scene.worker.stop(grace=30)
        await until(lambda: scene.given_back and scene.worker.health().held == 2)

        assert await scene.released() == scene.given_back
        assert scene.worker.health().running == 2


async def test_a_worker_that_is_killed_gives_nothing_back() -> None:
    async with at_standstill(FarAway()) as scene:
        held = scene.worker.health().held
        scene.worker.kill()
        await until(lambda: any(isinstance(event, WorkerStopped) for event in scene.events))

        assert (await scene.held(), await scene.released()) == (held, 0)


async def test_what_ends_with_its_worker_is_not_leased_before_it_can_run() -> None:
    broker, policy = FarAway(), bee.Policy(on_stall=bee.Archive())
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(200))
    scene = Scene(broker, policy=policy)

    await scene.worker.run(until_empty=True)

    assert broker.asked == 2


async def test_one_that_is_lost_while_it_waits_for_a_slot_never_runs() -> None:
    broker = Forgetful()
    async with at_standstill(broker, lease=0.3) as scene:
        await broker.pause("jobs")

        broker.forgets = True
        await until(lambda: scene.worker.health().held == 0)

        told = [(type(event), event.token) for event in scene.events if hasattr(event, "token")]
        lost = {token for kind, token in told if kind is AttemptLost}
        started = {token for kind, token in told if kind is AttemptStarted}
        assert lost - started
        for token in lost & started:
            assert told.index((AttemptStarted, token)) < told.index((AttemptLost, token))


async def test_all_that_were_asked_for_run_though_some_had_to_wait_for_a_slot() -> None:
    broker = FarAway()
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(250))
    scene = Scene(broker)
    scene.gate.set()  # all are quick

    await scene.worker.run(max_jobs=200)

    assert (await broker.stats("jobs")).ready == 50


async def test_as_many_run_as_were_asked_for_though_jobs_take_longer_than_they_did() -> None:
    broker = FarAway()
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(300))
    scene = Scene(broker)
    running = asyncio.create_task(scene.worker.run(max_jobs=250))
    await asyncio.sleep(1.5)
    scene.gate.set()
    await running

    assert (await broker.stats("jobs")).ready == 50


async def test_a_tick_does_not_wait_for_a_slot() -> None:
    schedule = bee.Schedule("pulse", Work(), every=3600)
    async with at_standstill(Punctual(), schedules=[schedule]) as scene:
        await until(lambda: scene.given_back and scene.worker.health().held == 2)

        ends = [event for event in scene.events if isinstance(event, AttemptSettled)]
        ticks = [event for event in ends if event.tag == "schedule"]
        assert len(ticks) > 1
        assert not any(isinstance(tick.outcome, Interrupted) for tick in ticks)


async def test_a_job_does_not_see_what_the_one_before_it_in_its_slot_has_set() -> None:
    seen: list[int] = []

    async def handle(job: Work) -> None:
        seen.append(SEEN.get())
        SEEN.set(job.number + 1)

    broker = FarAway()
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(300))

    await bee.Worker(broker, "jobs", Work, handle, concurrency=2).run(until_empty=True)

    assert seen == [0] * 300
