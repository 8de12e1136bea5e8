"""The messages that a worker holds: each from its lease until it is settled, or no longer its own.

    begin ──> slots ──> settle ──> settler ──> forget
      └────────────── heartbeat ────────────────┘

Until it is forgotten its lease is renewed. One whose lease is lost meanwhile is told to stop, and
is forgotten without being settled.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from bee_core.attempt import Attempt, LostLease
from bee_core.auto import Auto, first_and_most
from bee_core.clock import Clock
from bee_core.delivery import Delivery
from bee_core.errors import DecodeError, UnknownJob
from bee_core.fetcher import BATCH
from bee_core.handlers import Handlers
from bee_core.heartbeat import Heartbeat
from bee_core.message import ZERO, Counters, Lease, Settlement
from bee_core.outcome import Failed, Interrupted, Malformed, Outcome, Stalled, Unknown, tally
from bee_core.parts import Parts
from bee_core.queue import Queue
from bee_core.reporter import Reporter
from bee_core.settler import Ended, Settler
from bee_core.slots import Slots
from bee_core.strategy import resolve
from bee_core.ticks import COME_TO, Due
from bee_core.trouble import Trouble
from bee_core.verdict import give_back, is_poisoned, settlement_for

_FLUSH = 5.0
"""Seconds for the last settlements when everything else is over."""


class Held:
    """What one worker holds, with the parts that look after it.

    `is_cancelled` says whether somebody has cancelled the worker as a whole. `on_room` hears that a
    job has ended, or that a message is no longer held; `on_tick` of each tick of a schedule that is
    settled and how long that took; `on_stuck` of a handler that does not stop; and `on_failure` of
    the death of the heartbeat.
    """

    def __init__(
        self,
        queue: Queue[Any],
        handlers: Handlers[Any],
        *,
        size: int | Auto,
        lease: float,
        cancel_grace: float,
        clock: Clock,
        chance: Callable[[], float],
        trouble: Trouble,
        report: Reporter,
        is_cancelled: Callable[[], bool],
        on_room: Callable[[], None],
        on_tick: Callable[[Due, float], None],
        on_stuck: Callable[[Attempt], None],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        first, most = first_and_most(size)
        self._most = most + max(most, BATCH)
        self._clock = clock
        self._chance = chance
        self._report = report
        self._is_cancelled = is_cancelled
        self._on_room = on_room
        self._on_tick = on_tick
        self._attempts: dict[int, Attempt] = {}  # by token: running, or ended and not yet settled
        self._stopping = self._dropped = False
        self._stop_at = math.inf
        self._bell = clock.alarm()
        self.settled = 0
        """How many were, so far."""
        self.slots = Slots(
            queue.name,
            first,
            clock,
            cancel_grace=cancel_grace,
            tracing=queue.tracing,
            on_ended=self._on_ended,
            on_stuck=on_stuck,
        )
        self.settler = Settler(
            queue.broker,
            queue.name,
            trouble,
            on_settled=self._on_settled,
            on_lost=self._on_settlement_lost,
            on_refused=self._on_refused,
        )
        self.heartbeat = Heartbeat(
            queue.broker,
            queue.name,
            lease=lease,
            clock=clock,
            held=lambda: list(self._attempts.copy().values()),
            patience=2 * cancel_grace + lease / 3,
            on_lost=self._on_lost,
            on_trouble=report.trouble,
            on_recovered=report.recovered,
            on_blocked=self._on_blocked,
            on_died=lambda: on_failure("bee:heartbeat", RuntimeError("it ended")),
        )

    def __len__(self) -> int:
        return len(self._attempts)

    def room(self) -> int:
        """How many more messages it could take."""
        return min(self.slots.free, self._most - len(self._attempts))

    def begin(self, lease: Lease, until: float) -> bool:
        """Start a handler for this lease, or settle it at once if it must not run.

        Return whether a job was started: a tick of a schedule is none.
        """
        now = self._clock.now()
        try:
            job, tag, rules, call = self._handlers.open(lease)
        except DecodeError as error:
            problem = error.told  # it is kept with the message: which one is known
            outcome = Unknown(problem) if isinstance(error, UnknownJob) else Malformed(problem)
            attempt = Attempt(lease, resolve(self._queue.policy), "?", now, until)
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
        processes, hear = self.slots.processes, self.heartbeat.hear
        attempt.delivery = Delivery(lease, self._queue, self._clock, deadline, processes, hear)
        self._attempts[lease.receipt.token] = attempt
        self._report.attempt_started(attempt)
        self.slots.start(attempt, deadline)
        self.heartbeat.poke()
        return call is not COME_TO

    async def start(self, parts: Parts) -> None:
        """Be ready to hold something; raise if that cannot be."""
        await self.heartbeat.start()
        parts.start("bee:settler", self.settler.run)
        parts.start("bee:watch", self.slots.watch)

    def stop(self, at: float) -> None:
        """Start no more: what is leased from now on is given back. What runs may do so until then.

        Calling it again can only hurry.
        """
        self._stopping = True
        self._stop_at = min(self._stop_at, at)
        self._bell.ring()

    async def drain(self) -> None:
        """Let running jobs end; interrupt what is left when it is time to stop."""
        running = self.slots.running
        while running and self._clock.now() < self._stop_at:
            await self._bell.wait(self._stop_at - self._clock.now())
        self.slots.interrupt()
        while running:
            await self._bell.wait(math.inf)

    async def flush(self) -> None:
        """Wait for the last settlements, but not for ever: a lease that is left ends by itself."""
        flushing = asyncio.create_task(self.settler.flush(), name="bee:flush")
        patience = asyncio.create_task(self._clock.sleep(_FLUSH), name="bee:patience")
        try:
            await asyncio.wait({flushing, patience}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flushing.cancel()
            patience.cancel()

    def drop(self) -> None:
        """Let go, as a crash would: nothing is settled any more, and every lease runs out."""
        self._dropped = True
        self.slots.kill()

    def _on_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """A handler has ended, or no longer counts."""
        if self._dropped:
            return
        self._on_room()
        if not self.slots.running:
            self._bell.ring()
        if isinstance(outcome, Failed) and self._is_ended_with_all(attempt, outcome.error):
            attempt.ending = Interrupted()
        counted = attempt.counted(outcome)
        if counted is None:
            self._forget(attempt)
            certain = attempt.ending is LostLease.CERTAIN
            self._report.attempt_lost(attempt, None, certain=certain)
        else:
            self._settle(attempt, counted, tally(counted))

    def _is_ended_with_all(self, attempt: Attempt, error: BaseException) -> bool:
        """Whether it was cancelled together with its worker: as a loop does that is closed."""
        cancelled = isinstance(error, asyncio.CancelledError) and attempt.ending is None
        return cancelled and self._is_cancelled()

    def _settle(self, attempt: Attempt, outcome: Outcome, added: Counters) -> None:
        """Decide what becomes of the message."""
        most = self._queue.max_bytes
        settlement = settlement_for(attempt, outcome, added, self._handlers, self._chance(), most)
        self._hand_over(attempt, outcome, settlement)

    def _hand_over(self, attempt: Attempt, outcome: Outcome, settlement: Settlement) -> None:
        """Leave it to the settler. Until that has done its work the message is still held."""
        self._attempts[attempt.lease.receipt.token] = attempt
        self.settler.put(Ended(attempt, outcome, settlement))

    def _forget(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.lease.receipt.token, None)
        self._on_room()

    # What the parts say.

    def _on_settled(self, ended: Ended) -> None:
        self.settled += 1
        self._forget(ended.attempt)
        duration = self._clock.now() - ended.attempt.started_at
        self._report.attempt_settled(ended, duration)
        if isinstance(ended.attempt.job, Due):
            self._on_tick(ended.attempt.job, duration)

    def _on_settlement_lost(self, ended: Ended, certain: bool) -> None:
        self._forget(ended.attempt)
        self._report.attempt_lost(ended.attempt, ended.outcome, certain=certain)

    def _on_refused(self, ended: Ended, error: Exception) -> None:
        self._forget(ended.attempt)
        self._report.settlement_refused(ended, error)

    def _on_lost(self, attempts: Sequence[Attempt], how: LostLease) -> None:
        for attempt in attempts:
            self.slots.end(attempt, how)

    def _on_blocked(self, culprit: Attempt | None, stack: str) -> None:
        self._report.loop_blocked(list(self.slots.running.copy().values()), culprit, stack)
