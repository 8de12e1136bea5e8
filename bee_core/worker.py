"""A worker: one queue, many jobs at once, through nothing but the Broker protocol.

Its parts, all in one event loop but for the heartbeat:

    fetch      lease as many messages as there are free slots, start an attempt for each
    slots      one task per job, one timer for all deadlines    (slots.py, attempt.py)
    settler    one batch under way, the next one forming        (settler.py)
    heartbeat  renews leases from a thread of its own           (heartbeat.py)

What an attempt's outcome means is decided in `decide.py`. No exception of a handler, an
observer or a broker ends a worker. It touches no signals and sets up no logging: that is for
the program it lives in.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from typing_extensions import TypeForm

from bee_core.attempt import Attempt, LostLease, note_of
from bee_core.broker import Broker, Inspector
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.codec import Codec
from bee_core.decide import decide
from bee_core.delivery import Delivery, Handler
from bee_core.disposition import Delete, Reschedule
from bee_core.duration import Duration, seconds
from bee_core.errors import (
    BeeError,
    BrokerClosed,
    BrokerMisconfigured,
    DecodeError,
    InvalidOption,
    UnknownJob,
    WorkerStuck,
)
from bee_core.events import Observer, log_events
from bee_core.handlers import Handlers
from bee_core.heartbeat import Heartbeat
from bee_core.message import ZERO, Counters, Draft, Lease, Settlement, check_whole, new_id
from bee_core.outcome import (
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    Unknown,
    tally,
)
from bee_core.queue import MAX_BYTES, Queue
from bee_core.reporter import Reporter
from bee_core.settler import Ended, Settler
from bee_core.slots import Slots
from bee_core.strategy import Policy, Rules, resolve
from bee_core.trouble import Trouble, own_cancellation, uninterrupted

J = TypeVar("J")

SHORTEST_LEASE = 0.05
SHORTEST_POLL = 0.001
_LEASE_BATCH = 100
_FLUSH = 5.0
"""Seconds for the last settlements when everything else is over."""


class Worker(Generic[J]):
    """Runs the jobs of one queue.

    concurrency   jobs at once
    lease         seconds until a crash of this process is noticed by others; renewed while a
                  job runs, so it has nothing to do with how long jobs take
    poll          seconds after which an idle worker looks again, whatever wake-ups it missed
    grace         seconds that running jobs get at shutdown before they are interrupted
    cancel_grace  seconds between telling a handler to stop, telling it again, and giving it up
    observers     who hears of events; by default the log
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
        concurrency: int = 10,
        lease: Duration = 30.0,
        poll: Duration = 1.0,
        grace: Duration = 25.0,
        cancel_grace: Duration = 5.0,
        observers: Sequence[Observer] = (log_events,),
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.broker = broker
        self.queue: Queue[J] = Queue(
            broker, queue, form, policy=policy, codec=codec, max_bytes=max_bytes
        )
        self.concurrency = check_whole(concurrency, "concurrency", least=1)
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-12:]}"
        self._handlers = Handlers(self.queue) if handlers is None else handlers
        if handler is not None:
            self._handlers.handle_all(handler)
        self._handlers.check()
        self._lease = seconds(lease, "lease", least=SHORTEST_LEASE)
        self._poll = seconds(poll, "poll", least=SHORTEST_POLL)
        self._grace = seconds(grace, "grace")
        self._cancel_grace = seconds(cancel_grace, "cancel_grace")
        self._report = Reporter(self.queue.name, self.holder, observers)
        self._clock = clock
        self._chance = chance

        self._held: dict[int, Attempt] = {}  # by token: running, or ended and not yet settled
        self._most_held = self.concurrency + max(self.concurrency, _LEASE_BATCH)
        self._begun = False
        self._started = self._settled = 0
        self._stopping = self._until_empty = self._killed = self._closing = False
        self._parts: set[asyncio.Task[None]] = set()
        self._stop_at = math.inf
        self._failure: BeeError | None = None
        self._up = asyncio.Event()
        self._free_slot = asyncio.Event()
        self._bell = clock.alarm()
        self._waiting: asyncio.Task[None] | None = None
        self._cut_short: set[asyncio.Task[None]] = set()
        self._main_task: asyncio.Task[None] | None = None

        name = self.queue.name
        report = self._report
        self._trouble = Trouble(clock, chance, on_begin=report.trouble, on_end=report.recovered)
        self._slots = Slots(
            name,
            concurrency,
            clock,
            cancel_grace=self._cancel_grace,
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
            on_trouble=self._on_heartbeat_trouble,
            on_blocked=self._on_blocked,
        )

    async def run(self, *, until_empty: bool = False, max_jobs: int | None = None) -> None:
        """Work until stopped; or until the queue is empty, delayed jobs included; or for a while.

        Cancelling it interrupts the running jobs, gives them back, and is then honoured.
        """
        if self._begun:
            raise InvalidOption("a worker runs once: make a new one")
        if until_empty and not isinstance(self.broker, Inspector):
            raise InvalidOption("until_empty needs a broker that is an Inspector too")
        self._begun = True
        self._until_empty = until_empty
        most = math.inf if max_jobs is None else max_jobs
        main = self._main_task = asyncio.create_task(self._main(most), name="bee:worker")
        cancelled: asyncio.CancelledError | None = None
        while not main.done():
            try:
                await asyncio.wait({main})
            except asyncio.CancelledError as error:  # however often: the jobs are given back
                cancelled = error
                self.stop(grace=0)
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
        self._free_slot.set()
        self._bell.ring()
        self._trouble.hurry()
        self._cut_wait_short()

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
        """Return when it has begun to take jobs."""
        await self._up.wait()

    @property
    def stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self._stopping

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
            await self._heartbeat.start()
            self._keep_running("bee:settler", self._settler.run)
            self._keep_running("bee:watch", self._slots.watch)
            self._report.worker_started()
            self._up.set()
            await self._fetch(max_jobs)
            await self._drain()
            await self._flush()
        finally:
            await uninterrupted(self._close())
        if self._failure is not None:
            raise self._failure

    async def _close(self) -> None:
        self._closing = True
        self._slots.kill()  # nothing runs any more, unless this end is a sudden one
        await self._heartbeat.stop()
        for task in self._parts:
            task.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        self._slots.close()
        self._report.worker_stopped(self._settled, self._slots.stuck)

    def _keep_running(self, name: str, part: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a part of the worker in a task; if somebody cancels that, run it in another."""
        task = asyncio.create_task(part(), name=name)
        self._parts.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._parts.discard(task)
            if self._closing:
                return
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failure = BeeError(f"{name} failed: {error!r}")
                self._failure.__cause__ = error
                self.stop(grace=0)
            self._keep_running(name, part)

        task.add_done_callback(ended)

    async def _fetch(self, max_jobs: float) -> None:
        """Take and start jobs until told to stop, or until there are none, or enough."""
        while not self._stopping and self._started < max_jobs:
            room = self._slots.free, self._most_held - len(self._held)
            limit = int(min(*room, _LEASE_BATCH, max_jobs - self._started))
            if limit < 1:
                self._free_slot.clear()
                await self._free_slot.wait()
                continue
            before = self._clock.now()
            try:
                leases = await self.broker.lease(
                    self.queue.name, limit=limit, duration=self._lease, holder=self.holder
                )
            except (BrokerClosed, BrokerMisconfigured) as error:  # waiting would not help
                self._failure = error
                self.stop()
                return
            except BaseException as error:  # a worker that lives goes on taking jobs
                if own_cancellation(error):
                    raise
                await self._trouble.back_off("lease", error)
                continue
            self._trouble.over("lease")
            for lease in leases:
                self._begin(lease, before + self._lease)
            if len(leases) < limit:
                if self._until_empty and await self._is_empty():
                    return
                await self._wait()

    async def _wait(self) -> None:
        """Sleep until something may be ready. Only a hint: whatever goes wrong costs a poll."""
        if self._stopping:
            return
        waiting = self._waiting = asyncio.create_task(self._wait_once(), name="bee:wait")
        try:
            await asyncio.wait({waiting})
        finally:
            waiting.cancel()
            self._waiting = None
        if waiting in self._cut_short:
            self._cut_short.discard(waiting)
        elif waiting.cancelled():  # by nobody here: it leaked from a driver
            await self._trouble.back_off("wait", asyncio.CancelledError())
        elif (error := waiting.exception()) is not None:
            await self._trouble.back_off("wait", error)
        else:
            self._trouble.over("wait")

    def _cut_wait_short(self) -> None:
        if self._waiting is not None:
            self._cut_short.add(self._waiting)
            self._waiting.cancel()

    async def _wait_once(self) -> None:
        await self.broker.wait(self.queue.name, timeout=self._poll)

    async def _is_empty(self) -> bool:
        if self._held:
            return False
        assert isinstance(self.broker, Inspector)
        try:
            stats = await self.broker.stats(self.queue.name)
        except BaseException as error:
            if own_cancellation(error):
                raise
            await self._trouble.back_off("stats", error)
            return False
        self._trouble.over("stats")
        return stats.live == 0

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

    def _begin(self, lease: Lease, until: float) -> None:
        """Start a handler for this lease, or settle it at once if it must not run."""
        now = self._clock.now()
        try:
            job, tag, rules, call = self._handlers.open(lease)
        except DecodeError as error:
            problem = str(error)
            outcome = Unknown(problem) if isinstance(error, UnknownJob) else Malformed(problem)
            attempt = Attempt(lease, resolve(self.queue.policy), "?", now, until)
            self._settle(attempt, outcome, tally(outcome))
            return
        attempt = Attempt(lease, rules, tag, now, until)
        if self._stopping:
            self._give_back(attempt)
        elif lease.counters.stalls and _is_poisoned(rules, lease.counters):
            self._settle(attempt, Stalled(), ZERO)  # counted by the broker as it was taken over
        else:
            deadline = math.inf if rules.timeout is None else now + rules.timeout
            attempt.job, attempt.call = job, call
            attempt.delivery = Delivery(
                lease, self.queue, self._clock, deadline, self._slots.processes
            )
            self._start(attempt, deadline)

    def _start(self, attempt: Attempt, deadline: float) -> None:
        lease = attempt.lease
        self._started += 1
        self._held[lease.receipt.token] = attempt
        self._report.attempt_started(attempt)
        self._slots.start(attempt, deadline)
        self._heartbeat.poke()

    def _on_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """A handler has ended, or no longer counts. Why it was told to stop outranks how it did."""
        if self._killed:
            return
        self._free_slot.set()
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
        """Decide what becomes of the message and hand it to the settler."""
        lease = attempt.lease
        counters = lease.counters if added is ZERO else lease.counters + added
        disposition = decide(attempt.rules, outcome, counters, self._chance())
        then: tuple[Draft, ...] = ()
        if isinstance(outcome, Succeeded) and isinstance(disposition, Delete):
            note = None  # nothing will be left that could carry it
        else:
            note = note_of(outcome)
        if isinstance(disposition, Reschedule) or isinstance(outcome, Interrupted):
            pass  # it is not over, or not its own doing: nothing follows from it
        elif isinstance(outcome, Succeeded | Ruled):
            then = attempt.delivery.follow_ups if attempt.delivery is not None else ()
        elif note is not None:
            then = self._handlers.report(lease, counters, note)
        self._held[lease.receipt.token] = attempt
        settlement = Settlement(lease.receipt, disposition, note, added, then)
        self._settler.put(Ended(attempt, outcome, settlement))

    def _give_back(self, attempt: Attempt) -> None:
        """A lease that came too late to be started: back to its place, at no cost."""
        receipt = attempt.lease.receipt
        self._held[receipt.token] = attempt
        settlement = Settlement(receipt, Reschedule(front=True), counters=Counters(releases=1))
        self._settler.put(Ended(attempt, Interrupted(), settlement))

    def _forget(self, attempt: Attempt) -> None:
        self._held.pop(attempt.lease.receipt.token, None)
        self._free_slot.set()
        if self._until_empty and not self._held:
            self._cut_wait_short()  # look again: the queue may be empty now

    # What the parts report.

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
        self._report.attempt_settled(ended, self._clock.now() - ended.attempt.started_at)

    def _on_settlement_lost(self, ended: Ended, certain: bool) -> None:
        self._forget(ended.attempt)
        self._report.attempt_lost(ended.attempt, ended.outcome, certain=certain)

    def _on_refused(self, ended: Ended, error: Exception) -> None:
        self._forget(ended.attempt)
        self._report.settlement_refused(ended, error)

    def _on_heartbeat_trouble(self, error: Exception | None) -> None:
        if error is not None:
            self._report.trouble("extend", error)
        else:
            self._report.recovered("extend")

    def _on_blocked(self, stack: str) -> None:
        self._report.loop_blocked(list(self._slots.running.copy().values()), stack)


def _is_poisoned(rules: Rules, counters: Counters) -> bool:
    """Whether it has taken down more workers than its policy allows."""
    return not isinstance(decide(rules, Stalled(), counters, 0.0), Reschedule)
