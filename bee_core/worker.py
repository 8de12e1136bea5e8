"""A worker: one queue, many jobs at once, through nothing but the Broker protocol.

Its parts, all in one event loop but for the heartbeat:

    fetcher    lease as many messages as there are free slots   (fetcher.py)
    slots      one task per job, one timer for all deadlines    (slots.py, attempt.py)
    settler    one batch under way, the next one forming        (settler.py)
    heartbeat  renews leases from a thread of its own           (heartbeat.py)
    planner    sees to it that schedules are in the store       (planner.py)
    tuner      changes the number of slots, if that is wanted   (auto.py)

What an outcome means is decided in `decide.py`, by way of `verdict.py`. No exception of a handler
or an observer ends a worker, and of a broker only what waiting cannot mend. A worker touches no
signals and sets up no logging: that is for the program it lives in.
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

from bee_core.attempt import Attempt, LostLease
from bee_core.auto import Auto, Tuner, check_size, first_and_most
from bee_core.broker import Broker, Examined, Inspector
from bee_core.capacity import Member, Place
from bee_core.checks import check_throttle, check_whole
from bee_core.checkup import Checkup
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.delivery import Delivery, Handler
from bee_core.duration import Duration, seconds
from bee_core.errors import (
    BeeError,
    BrokerClosed,
    BrokerMisconfigured,
    BrokerUnavailable,
    DecodeError,
    InvalidOption,
    UnknownJob,
    WorkerStuck,
)
from bee_core.events import Observer
from bee_core.fetcher import BATCH, Fetcher
from bee_core.handlers import Handlers
from bee_core.health import QueueHealth, queue_health
from bee_core.heartbeat import Heartbeat
from bee_core.ids import new_id
from bee_core.journal import log_events
from bee_core.message import THROTTLE, ZERO, Counters, Lease, Settlement, Throttle
from bee_core.meter import Load
from bee_core.outcome import Interrupted, Malformed, Outcome, Stalled, Unknown, tally
from bee_core.parts import Parts
from bee_core.planner import Planner, is_empty
from bee_core.presence import Announcer, presence_here
from bee_core.queue import MAX_BYTES, Queue
from bee_core.reporter import Reporter
from bee_core.schedule import Schedule
from bee_core.settler import Ended, Settler
from bee_core.slots import Slots
from bee_core.strategy import Policy, resolve
from bee_core.ticks import COME_TO, Due
from bee_core.tracing import Tracing
from bee_core.trouble import Trouble, own_cancellation, uninterrupted
from bee_core.verdict import give_back, is_poisoned, settlement_for

J = TypeVar("J")

SHORTEST_LEASE = 0.05
SHORTEST_POLL = 0.001
_FLUSH = 5.0
"""Seconds for the last settlements when everything else is over."""
_WITHDRAW = 1.0
"""Seconds for saying that the worker is gone."""


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

        self._held: dict[int, Attempt] = {}  # by token: running, or ended and not yet settled
        self._most_held = self.concurrency + max(self.concurrency, BATCH)
        self._begun = self._stopping = self._killed = self._closed = self._until_empty = False
        self._stop_at = math.inf
        self._settled = 0
        self._failure: BeeError | None = None
        self._up = asyncio.Event()
        self._bell = clock.alarm()
        self._main_task: asyncio.Task[None] | None = None
        self._make_parts()

    def _make_parts(self) -> None:
        broker, name, clock, report = self.broker, self.queue.name, self._clock, self._report
        self._parts = Parts(self._on_part_failed)
        self._trouble = Trouble(
            clock, self._chance, on_begin=report.trouble, on_end=report.recovered
        )
        self._member = None if self._place is None else self._take_part(self._place)
        self._fetcher = Fetcher(
            broker,
            name,
            self.holder,
            lease=self._lease,
            poll=self._poll,
            throttle=self._throttle,
            clock=clock,
            trouble=self._trouble,
            room=self._room,
            on_lease=self._begin,
            resting=lambda: not self._held,
            is_empty=self.is_empty,
            on_vain=lambda: self._heartbeat.hurry(),
            member=self._member,
            is_ready=self._is_ready,
        )
        self._planner = Planner(
            broker,
            name,
            self._handlers.schedules.values(),
            clock=clock,
            trouble=self._trouble,
            on_planned=self._fetcher.look_again,
        )
        self._announcer = Announcer(
            broker,
            name,
            self.holder,
            clock=clock,
            in_trouble=lambda: self._trouble.under_way,
            on_trouble=report.trouble,
            on_recovered=report.recovered,
        )
        self._slots = Slots(
            name,
            first_and_most(self._size)[0],
            clock,
            cancel_grace=self._cancel_grace,
            tracing=self.queue.tracing,
            on_ended=self._on_ended,
            on_stuck=self._on_stuck,
        )
        self._settler = Settler(
            broker,
            name,
            self._trouble,
            on_settled=self._on_settled,
            on_lost=self._on_settlement_lost,
            on_refused=self._on_refused,
        )
        self._heartbeat = Heartbeat(
            broker,
            name,
            lease=self._lease,
            clock=clock,
            held=lambda: list(self._held.copy().values()),
            patience=2 * self._cancel_grace + self._lease / 3,
            on_lost=self._on_lost,
            on_trouble=report.trouble,
            on_recovered=report.recovered,
            on_blocked=self._on_blocked,
            on_died=lambda: self._on_part_failed("bee:heartbeat", RuntimeError("it ended")),
        )

    async def run(self, *, until_empty: bool = False, max_jobs: int | None = None) -> None:
        """Work until stopped; or until the queue is empty, delayed jobs included; or for a while.

        Schedules that wait for their time do not count as jobs.
        Cancelling it interrupts the running jobs, gives them back, and is then honoured.
        """
        if self._begun:
            raise InvalidOption("a worker runs once: make a new one")
        if until_empty and not isinstance(self.broker, Inspector):
            raise InvalidOption("until_empty needs a broker that is an Inspector too")
        most = math.inf if max_jobs is None else check_whole(max_jobs, "max_jobs", least=0)
        self._begun = True
        self._until_empty = until_empty
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
        self._stop_at = min(self._stop_at, self._clock.now() + limit)
        self._stopping = True
        self._fetcher.stop()
        self._bell.ring()
        self._trouble.hurry()

    def kill(self) -> None:
        """Stop dead, as a crash would: nothing is settled, nothing is given back.

        For tests, and for a program that must leave at once. `run` returns.
        """
        self.stop(grace=0)
        if self._killed:
            return
        self._killed = True
        self._slots.kill()
        if self._main_task is not None:
            self._main_task.cancel()

    async def started(self) -> None:
        """Return when it takes jobs, or has ended."""
        await self._up.wait()

    async def is_empty(self) -> bool:
        """Whether nothing is left in the queue but its schedules, waiting for their time."""
        if not isinstance(self.broker, Inspector):
            raise InvalidOption("this needs a broker that is an Inspector too")
        schedules = self._handlers.schedules.values()
        return self._planner.planned and await is_empty(self.broker, self.queue.name, schedules)

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
            settled=self._settled,
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
            if self._member is not None:
                self._member.join()
            await self._heartbeat.start()
            self._parts.start("bee:settler", self._settler.run)
            self._parts.start("bee:watch", self._slots.watch)
            if isinstance(self.broker, Examined):
                self._parts.start("bee:checkup", self._checkup(self.broker).run)
            if not self._planner.planned:
                self._parts.start("bee:planner", self._planner.run)
            self._announcer.presence = presence_here(self.concurrency, self._handlers.kinds)
            self._parts.start("bee:announcer", self._announcer.run)
            if isinstance(self._size, Auto):
                self._tuner(self._size).start(self._parts)
            self._report.worker_started()
            self._up.set()
            await self._fetch(max_jobs)
            await self._drain()
            await self._flush()
        finally:
            self._up.set()
            await uninterrupted(self._close())
        if self._failure is not None:
            raise self._failure

    def _checkup(self, broker: Examined) -> Checkup:
        report = self._report
        return Checkup(
            broker,
            self._clock,
            on_finding=report.ailment,
            on_trouble=report.trouble,
            on_recovered=report.recovered,
        )

    def _tuner(self, auto: Auto) -> Tuner:
        return Tuner(
            auto,
            self._clock,
            size=lambda: self._slots.size,
            load=self._load,
            resize=self._resize,
            on_changed=self._report.concurrency_changed,
        )

    async def _fetch(self, max_jobs: float) -> None:
        try:
            await self._fetcher.run(max_jobs=max_jobs, until_empty=self._until_empty)
        except (BrokerClosed, BrokerMisconfigured) as error:  # raised when the running jobs ended
            self._failure = self._failure or error
            self.stop()
        finally:
            if self._member is not None:
                self._member.rest()

    async def _close(self) -> None:
        self._closed = True
        if self._member is not None:
            self._member.leave()
        self._slots.kill()  # nothing runs any more, unless this end is a sudden one
        await self._heartbeat.stop()
        await self._parts.stop()
        if not self._killed:
            await self._withdraw()
        await self._slots.processes.aclose()
        self._slots.close()
        self._report.worker_stopped(self._settled, self._slots.stuck)

    async def _withdraw(self) -> None:
        """Leave the list of workers, if the broker answers."""
        try:
            async with asyncio.timeout(_WITHDRAW):
                await self._announcer.withdraw()
        except BaseException as error:
            if own_cancellation(error):
                raise
            if not self._trouble.under_way:
                shown = error if isinstance(error, Exception) else BrokerUnavailable(repr(error))
                self._report.trouble("announce", shown)

    async def _drain(self) -> None:
        """Let running jobs end; interrupt what is left when the grace is over."""
        running = self._slots.running
        while running and self._clock.now() < self._stop_at:
            await self._bell.wait(self._stop_at - self._clock.now())
        for attempt in list(running.values()):
            self._slots.end(attempt, Interrupted(), patience=min(1.0, self._cancel_grace))
        while running:
            await self._bell.wait(math.inf)

    async def _flush(self) -> None:
        """Wait for the last settlements, but not for ever: a lease that is left ends by itself."""
        flushing = asyncio.create_task(self._settler.flush(), name="bee:flush")
        patience = asyncio.create_task(self._clock.sleep(_FLUSH), name="bee:patience")
        try:
            await asyncio.wait({flushing, patience}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flushing.cancel()
            patience.cancel()

    def _begin(self, lease: Lease, until: float) -> bool:
        """Start a handler for this lease, or settle it at once if it must not run.

        Return whether a job was started: a tick of a schedule is none.
        """
        now = self._clock.now()
        try:
            job, tag, rules, call = self._handlers.open(lease)
        except DecodeError as error:
            problem = str(error)
            outcome = Unknown(problem) if isinstance(error, UnknownJob) else Malformed(problem)
            attempt = Attempt(lease, resolve(self.queue.policy), "?", now, until)
            self._settle(attempt, outcome, tally(outcome))
            return False
        attempt = Attempt(lease, rules, tag, now, until)
        if self._stopping:
            self._hand_over(attempt, Interrupted(), give_back(attempt))
            return False
        if lease.counters.stalls and is_poisoned(rules, lease.counters):
            self._settle(attempt, Stalled(), ZERO)  # counted by the broker as it was taken over
            return False
        deadline = math.inf if rules.timeout is None else now + rules.timeout
        attempt.job, attempt.call = job, call
        processes, hear = self._slots.processes, self._heartbeat.hear
        attempt.delivery = Delivery(lease, self.queue, self._clock, deadline, processes, hear)
        self._held[lease.receipt.token] = attempt
        self._report.attempt_started(attempt)
        self._slots.start(attempt, deadline)
        self._heartbeat.poke()
        return call is not COME_TO

    def _on_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """A handler has ended, or no longer counts. Why it was told to stop outranks how it did."""
        if self._killed or self._closed:
            return  # as in a crash: its lease runs out by itself
        self._made_room()
        if self._stopping or not self._slots.running:
            self._bell.ring()
        ending = attempt.ending
        if isinstance(ending, LostLease):
            self._forget(attempt)
            self._report.attempt_lost(attempt, None, certain=ending is LostLease.CERTAIN)
            return
        outcome = outcome if ending is None else ending
        self._settle(attempt, outcome, tally(outcome))

    def _settle(self, attempt: Attempt, outcome: Outcome, added: Counters) -> None:
        """Decide what becomes of the message."""
        most = self.queue.max_bytes
        settlement = settlement_for(attempt, outcome, added, self._handlers, self._chance(), most)
        self._hand_over(attempt, outcome, settlement)

    def _hand_over(self, attempt: Attempt, outcome: Outcome, settlement: Settlement) -> None:
        """Leave it to the settler. Until that has done its work the message is still held."""
        self._held[attempt.lease.receipt.token] = attempt
        self._settler.put(Ended(attempt, outcome, settlement))

    def _forget(self, attempt: Attempt) -> None:
        self._held.pop(attempt.lease.receipt.token, None)
        self._made_room()
        if self._until_empty and not self._held:
            self._fetcher.look_again()  # the queue may be empty now

    # How many at once.

    def _room(self) -> int:
        """How many more messages it could take."""
        return min(self._slots.free, self._most_held - len(self._held))

    def _take_part(self, place: Place) -> Member:
        return Member(
            place,
            room=self._room,
            running=lambda: len(self._slots.running),
            on_room=lambda: self._fetcher.made_room(),
        )

    def _made_room(self) -> None:
        if self._member is None:
            self._fetcher.made_room()
        elif not self._member.capacity.stirred:
            self._member.capacity.stirred = True
            asyncio.get_running_loop().call_soon(self._member.capacity.wake)

    async def _is_ready(self) -> bool:
        if not isinstance(self.broker, Inspector):
            return True
        stats = await self.broker.stats(self.queue.name)
        return stats.ready > 0 and not stats.paused

    def _load(self) -> Load:
        slots = self._slots
        peak, slots.peak = slots.peak, len(slots.running)
        return Load(peak, self._fetcher.hungry and peak >= slots.size)

    def _resize(self, size: int) -> None:
        self._slots.size = size
        self._slots.processes.size = size
        self._made_room()

    # What the parts report.

    def _on_part_failed(self, name: str, error: BaseException) -> None:
        if self._failure is None:
            self._failure = BeeError(f"{name} failed: {error!r}")
            self._failure.__cause__ = error
        self.stop(grace=0)

    def _on_lost(self, attempts: Sequence[Attempt], how: LostLease) -> None:
        for attempt in attempts:
            self._slots.end(attempt, how)

    def _on_stuck(self, attempt: Attempt) -> None:
        stuck = self._slots.stuck
        self._report.handler_stuck(attempt, stuck)
        if stuck >= self.concurrency and self._failure is None and not self._stopping:
            self._failure = WorkerStuck(
                f"{stuck} handlers of queue {self.queue.name!r} ignore their cancellation; "
                "only ending the process ends them"
            )
            self.stop()

    def _on_settled(self, ended: Ended) -> None:
        self._settled += 1
        self._forget(ended.attempt)
        duration = self._clock.now() - ended.attempt.started_at
        self._report.attempt_settled(ended, duration)
        if isinstance(ended.attempt.job, Due):
            self._planner.settled(ended.attempt.job, duration)

    def _on_settlement_lost(self, ended: Ended, certain: bool) -> None:
        self._forget(ended.attempt)
        self._report.attempt_lost(ended.attempt, ended.outcome, certain=certain)

    def _on_refused(self, ended: Ended, error: Exception) -> None:
        self._forget(ended.attempt)
        self._report.settlement_refused(ended, error)

    def _on_blocked(self, culprit: Attempt | None, stack: str) -> None:
        self._report.loop_blocked(list(self._slots.running.copy().values()), culprit, stack)
