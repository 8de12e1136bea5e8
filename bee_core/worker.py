"""A worker: one queue, many jobs at once, through nothing but the Broker protocol.

Its parts, all in one event loop but for the heartbeat:

    fetcher        leases what there is room for, and some ahead      (fetcher.py, ahead.py)
    held           what was leased, until it is settled               (held.py)
        slots      one task per job, one timer for all deadlines      (slots.py, attempt.py)
        settler    one batch under way, the next one forming          (settler.py)
        heartbeat  renews leases from a thread of its own             (heartbeat.py)
    upkeep         what goes on beside the jobs                       (upkeep.py)
        planner    sees to it that schedules are in the store         (planner.py)
        announcer  says that it is there                              (presence.py)
        checkup    asks the store what ails it                        (checkup.py)
        tuner      changes the number of slots, if that is wanted     (auto.py)

Its life has three phases: it fetches until it is stopped, lets running jobs end, and waits for the
last settlements. What an outcome means is decided in `decide.py`, by way of `verdict.py`. No
exception of a handler or an observer ends a worker, and of a broker only what waiting cannot mend.
A worker touches no signals and sets up no logging: that is for the program it lives in.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from typing_extensions import TypeForm

from bee_core.attempt import Attempt
from bee_core.auto import Auto, check_size, first_and_most
from bee_core.broker import Broker, Inspector
from bee_core.capacity import Place
from bee_core.checks import check_throttle, check_whole
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.delivery import Handler
from bee_core.duration import Duration, seconds
from bee_core.errors import BeeError, BrokerClosed, BrokerMisconfigured, InvalidOption, WorkerStuck
from bee_core.events import Observer
from bee_core.fetcher import Fetcher
from bee_core.handlers import Handlers
from bee_core.health import QueueHealth, queue_health
from bee_core.held import Held
from bee_core.ids import new_id
from bee_core.journal import log_events
from bee_core.message import THROTTLE, Throttle
from bee_core.parts import Parts
from bee_core.queue import MAX_BYTES, Queue
from bee_core.reporter import Reporter
from bee_core.schedule import Schedule
from bee_core.strategy import Policy
from bee_core.tracing import Tracing
from bee_core.trouble import Trouble, uninterrupted
from bee_core.upkeep import Upkeep

J = TypeVar("J")

SHORTEST_LEASE = 0.05
SHORTEST_POLL = 0.001


class Worker(Generic[J]):
    """Runs the jobs of one queue.

    concurrency   jobs at once; with `Auto` it is found out, between two bounds
    throttle      how many of one key at once, and how fast, over all workers of the queue
    lease         seconds until a crash of this process is noticed by others; renewed while a
                  job runs, so it has nothing to do with how long jobs take
    poll          seconds after which an idle worker looks again, whatever wake-ups it missed
    grace         seconds that running jobs get at shutdown before they are interrupted
    cancel_grace  seconds between telling a handler to stop, telling it again, and giving it up
    observers     who hears of events; by default the log
    tracing       who follows jobs from sender to handler, such as `OpenTelemetry()`
    schedules     jobs to be sent again and again
    place         what this queue is to others that share a capacity: see `Hive`
    """

    def __init__(
        self,
        broker: Broker,
        queue: str,
        form: TypeForm[J],
        handler: Handler[J] | None = None,
        *,
        handlers: Handlers[J] | None = None,
        policy: Policy = Policy(),
        codec: Codec[J] | None = None,
        max_bytes: int = MAX_BYTES,
        concurrency: int | Auto = 10,
        throttle: Throttle = THROTTLE,
        lease: Duration = 30.0,
        poll: Duration = 1.0,
        grace: Duration = 25.0,
        cancel_grace: Duration = 5.0,
        observers: Sequence[Observer] = (log_events,),
        tracing: Tracing | None = None,
        schedules: Sequence[Schedule[J]] = (),
        place: Place | None = None,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.broker = broker
        self.queue: Queue[J] = Queue(
            broker,
            queue,
            form,
            policy=policy,
            codec=codec,
            max_bytes=max_bytes,
            clock=clock,
            tracing=tracing,
        )
        self._size = check_size(concurrency, "concurrency")
        self.concurrency = first_and_most(self._size)[1]
        self._place = place
        self._throttle = check_throttle(throttle)
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-12:]}"
        self._handlers = Handlers(self.queue) if handlers is None else handlers
        if handler is not None:
            self._handlers.handle_all(handler)
        self._handlers.check()
        for schedule in schedules:
            self._handlers.schedule(schedule)
        self._lease = seconds(lease, "lease", least=SHORTEST_LEASE)
        self._poll = seconds(poll, "poll", least=SHORTEST_POLL)
        self._grace = seconds(grace, "grace")
        self._cancel_grace = seconds(cancel_grace, "cancel_grace")
        self._report = Reporter(self.queue.name, self.holder, observers)
        self._clock = clock
        self._chance = chance

        self._stopping = self._killed = self._closed = self._until_empty = False
        self._failure: BeeError | None = None
        self._up = asyncio.Event()
        self._running: asyncio.Task[None] | None = None  # `run`
        self._main_task: asyncio.Task[None] | None = None
        self._make_parts()

    def _make_parts(self) -> None:
        broker, name, clock, report = self.broker, self.queue.name, self._clock, self._report
        chance, self._parts = self._chance, Parts(self._on_part_failed)
        self._trouble = Trouble(clock, chance, on_begin=report.trouble, on_end=report.recovered)
        self._held = Held(
            self.queue,
            self._handlers,
            size=self._size,
            lease=self._lease,
            ahead=self._place is None,  # who shares a capacity takes nothing from it unused
            cancel_grace=self._cancel_grace,
            clock=clock,
            chance=chance,
            trouble=self._trouble,
            report=report,
            is_cancelled=lambda: self._running is not None and self._running.cancelling() > 0,
            on_room=self._on_room,
            on_tick=lambda due, took: self._upkeep.planner.settled(due, took),
            on_stuck=self._on_stuck,
            on_failure=self._on_part_failed,
        )
        self._slots, self._heartbeat = self._held.slots, self._held.heartbeat
        self._fetcher = Fetcher(
            broker,
            name,
            self.holder,
            lease=self._lease,
            poll=self._poll,
            throttle=self._throttle,
            clock=clock,
            trouble=self._trouble,
            room=self._held.room,
            on_leases=self._held.take,
            jobs=self._held.jobs,
            resting=lambda: not self._held,
            is_empty=self.is_empty,
            on_vain=self._heartbeat.hurry,
            may_order=lambda: self._place is None and not self._held.frail,
            place=self._place,
            running=lambda: len(self._slots.running),
        )
        self._upkeep = Upkeep(
            self.queue,
            self.holder,
            self._handlers,
            size=self._size,
            held=self._held,
            fetcher=self._fetcher,
            clock=clock,
            trouble=self._trouble,
            report=report,
        )

    async def run(self, *, until_empty: bool = False, max_jobs: int | None = None) -> None:
        """Work until stopped; or until the queue is empty, delayed jobs included; or for a while.

        Schedules that wait for their time do not count as jobs.
        Cancelling it interrupts the running jobs, gives them back, and is then honoured.
        """
        if self._running is not None:
            raise InvalidOption("a worker runs once: make a new one")
        if until_empty and not isinstance(self.broker, Inspector):
            raise InvalidOption("until_empty needs a broker that is an Inspector too")
        most = math.inf if max_jobs is None else check_whole(max_jobs, "max_jobs", least=0)
        self._running, self._until_empty = asyncio.current_task(), until_empty
        main = self._main_task = asyncio.create_task(self._main(most), name="bee:worker")
        cancelled: asyncio.CancelledError | None = None
        while not main.done():
            try:
                await asyncio.wait({main})
            except asyncio.CancelledError as error:  # however often: the jobs are given back
                cancelled = error
                self.stop(grace=0)
        self._closed = True  # also if it was killed before it had begun
        self._up.set()
        failure = None if main.cancelled() else main.exception()
        if cancelled is not None:
            raise cancelled from failure
        if not self._killed:
            main.result()

    def stop(self, *, grace: Duration | None = None) -> None:
        """Take no more jobs; give the running ones `grace` to end, then interrupt them.

        Returns at once; `run` returns when it is done. Calling it again can only hurry.
        """
        limit = self._grace if grace is None else seconds(grace, "grace")
        self._stopping = True
        self._fetcher.stop()
        self._held.stop(self._clock.now() + limit)
        self._trouble.hurry()

    def kill(self) -> None:
        """Stop dead, as a crash would: nothing is settled, nothing is given back.

        For tests, and for a program that must leave at once. `run` returns.
        """
        if self._killed:
            return
        self._killed = True
        self._held.drop()  # first: what has no slot yet would be given back
        self.stop(grace=0)
        if self._main_task is not None:
            self._main_task.cancel()

    async def started(self) -> None:
        """Return when it takes jobs, or has ended."""
        await self._up.wait()

    async def is_empty(self) -> bool:
        """Whether nothing is left in the queue but its schedules, waiting for their time."""
        if not isinstance(self.broker, Inspector):
            raise InvalidOption("this needs a broker that is an Inspector too")
        return await self._upkeep.planner.is_empty(self.broker)

    @property
    def stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stopping

    @property
    def ended(self) -> bool:
        """Whether it has run and is over."""
        return self._closed

    def health(self) -> QueueHealth:
        """How it is. Nothing is asked of the broker."""
        return queue_health(
            now=self._clock.now(),
            last_fetched=self._fetcher.last_fetched,
            full=self._fetcher.full,
            poll=self._poll,
            running=len(self._slots.running),
            held=len(self._held),
            stuck=self._slots.stuck,
            settled=self._held.settled,
        )

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Worker[J]]:
        """Work in the background inside `async with`; leaving it stops gracefully."""
        task = asyncio.create_task(self.run(), name="bee:working")
        try:
            yield self
        finally:
            self.stop()
            await task

    async def _main(self, max_jobs: float) -> None:
        try:
            self._fetcher.join()
            await self._held.start(self._parts)
            self._upkeep.start(self._parts)
            self._report.worker_started()
            self._up.set()
            await self._fetch(max_jobs)
            await self._held.drain()
            await self._held.flush()
        finally:
            self._up.set()
            await uninterrupted(self._close())
        if self._failure is not None:
            raise self._failure

    async def _fetch(self, max_jobs: float) -> None:
        try:
            await self._fetcher.run(max_jobs=max_jobs, until_empty=self._until_empty)
        except (BrokerClosed, BrokerMisconfigured) as error:  # raised when the running jobs ended
            self._failure = self._failure or error
            self.stop()

    async def _close(self) -> None:
        self._closed = True
        self._fetcher.leave()
        self._held.drop()  # nothing runs any more, unless this end is a sudden one
        await self._heartbeat.stop()
        await self._parts.stop()
        if not self._killed:
            await self._upkeep.withdraw()
        await self._slots.aclose()
        self._report.worker_stopped(self._held.settled, self._slots.stuck)

    # What the parts report.

    def _on_room(self) -> None:
        """A job has ended, or a message is no longer held."""
        self._fetcher.made_room()
        if self._until_empty and not self._held:
            self._fetcher.look_again()  # the queue may be empty now

    def _on_part_failed(self, name: str, error: BaseException) -> None:
        if self._failure is None:
            self._failure = BeeError(f"{name} failed: {error!r}")
            self._failure.__cause__ = error
        self.stop(grace=0)

    def _on_stuck(self, attempt: Attempt) -> None:
        stuck = self._slots.stuck
        self._report.handler_stuck(attempt, stuck)
        if stuck >= self.concurrency and self._failure is None and not self._stopping:
            self._failure = WorkerStuck(
                f"{stuck} handlers of queue {self.queue.name!r} ignore their cancellation; "
                "only ending the process ends them"
            )
            self.stop()
