"""The messages that a worker holds: each from its lease until it is settled, or no longer its own.

    inbox ──> early ──> slots ──> settle ──> settler ──> forget
               └──────────────── heartbeat ─────────────────┘

Until it is forgotten its lease is renewed. One whose lease is lost meanwhile is told to stop, and
is forgotten without being settled. Some are leased a moment before there is a slot for them (see
ahead.py), and wait for it; what has waited for too long is given back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from bee_core.ahead import Early, Pace, is_frail
from bee_core.attempt import Attempt, LostLease
from bee_core.auto import Auto, first_and_most
from bee_core.batches import BATCH
from bee_core.clock import Clock
from bee_core.delivery import Delivery
from bee_core.errors import DecodeError, UnknownJob
from bee_core.events import Observer
from bee_core.handlers import Handlers
from bee_core.heartbeat import Heartbeat
from bee_core.inbox import Inbox
from bee_core.message import ZERO, Counters, Lease
from bee_core.outcome import Failed, Interrupted, Malformed, Outcome, Stalled, Unknown, tally
from bee_core.parts import Parts
from bee_core.queue import Queue
from bee_core.reporter import Reporter
from bee_core.settler import Ended, Settler
from bee_core.slots import Slots
from bee_core.strategy import Rules, resolve
from bee_core.ticks import COME_TO, Due
from bee_core.trouble import Trouble
from bee_core.verdict import give_back, is_poisoned, settlement_for

_FLUSH = 5.0
"""Seconds for the last settlements when everything else is over."""
_UNSETTLED = 250
"""While settlements fail, twice as many may wait beside the slots; else twice a batch."""


class Held:
    """What one worker holds, with the parts that look after it.

    `ahead` says whether some may be leased before there is a slot for them.
    `is_cancelled` says whether somebody has cancelled the worker as a whole. `on_room` hears that a
    job has ended, or that a message is no longer held; `on_tick` of each tick of a schedule that is
    settled and how long that took; `on_stuck` of a handler that does not stop; and `on_failure` of
    what must not be: the death of the heartbeat, a job whose end cannot be seen to.
    """

    def __init__(
        self,
        queue: Queue[Any],
        handlers: Handlers[Any],
        *,
        size: int | Auto,
        lease: float,
        ahead: bool,
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
        self._most, self._most_unsettled = (most + 2 * max(most, n) for n in (BATCH, _UNSETTLED))
        self._lease = lease
        self._clock = clock
        self._chance = chance
        self._report = report
        self._is_cancelled = is_cancelled
        self._on_room = on_room
        self._on_failure = on_failure
        self._on_tick = on_tick
        self._inbox = Inbox(self._open, on_failure)
        self._attempts: dict[int, Attempt] = {}  # by token: running, or ended and not yet settled
        self._early = Early(clock, self._give_back)  # those of them that wait for a slot
        self._pace, self._ahead = Pace(), ahead
        self._ended = 0
        self._rules: Rules | None = None  # those of the last one taken
        self.frail = any(map(is_frail, handlers.rules))
        """Whether one stall ends a job here: then none is leased before it can run."""
        self._stopping = self._dropped = False
        self._stop_at = math.inf
        self._bell = clock.alarm()
        self._started = 0  # jobs, that is: a tick of a schedule is none
        self.settled = 0
        """How many were, so far."""
        self.slots = Slots(
            queue.name,
            first,
            clock,
            cancel_grace=cancel_grace,
            tracing=queue.tracing,
            on_free=self._start_early,
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
            on_sign=self.slots.look,  # about once a second while anything is held
            on_died=lambda: on_failure("bee:heartbeat", RuntimeError("it ended")),
        )

    def __len__(self) -> int:
        return self._inbox.count + len(self._attempts)

    def room(self) -> int:
        """How many more messages it could take."""
        unopened, slots = self._inbox.count, self.slots
        free = slots.size - len(slots.running) - unopened - len(self._early.line)
        if self._ahead and not self.frail:
            free += self._pace.ahead(self._clock.now(), self._ended)
        most = self._most_unsettled if self.settler.failing else self._most
        return min(free, most - unopened - len(self._attempts), self._pace.bearable)

    def jobs(self) -> tuple[int, int]:
        """How many were started so far, and how many wait for a slot."""
        return self._started, self._inbox.count + len(self._early.line)

    def take(self, leases: Sequence[Lease], asked_at: float, *, full: bool, stood: bool) -> None:
        """Start a handler for each, as soon as there is a slot, or settle it if it must not run.

        `full` says that as many came as were asked for, `stood` that they had to be waited for.
        """
        began = None if stood else asked_at
        self._pace.leased(leases, began, self._clock.now(), self._ended)
        self._inbox.add(leases, asked_at, soon=full and self._ahead)

    def _open(self, leases: Sequence[Lease], asked_at: float) -> None:
        now, until = self._clock.now(), asked_at + self._lease
        late = until - now < self._lease / 3  # there may be no time left to renew it
        for lease in leases:
            self._take(lease, until, now, late)
        self._start_early()
        if self.frail:
            self._early.give_back_frail()
        if self._early.line:
            self._early.added()
        if leases:
            self.heartbeat.poke()

    def _take(self, lease: Lease, until: float, now: float, late: bool) -> None:
        try:
            job, tag, rules, call = self._handlers.open(lease)
        except DecodeError as error:
            problem = error.told  # it is kept with the message: which one is known
            outcome = Unknown(problem) if isinstance(error, UnknownJob) else Malformed(problem)
            attempt = Attempt(lease, resolve(self._queue.policy), "?", now, until)
            self._attempts[lease.receipt.token] = attempt
            self._settle(attempt, outcome, tally(outcome))
            return
        if rules is not self._rules:
            self._rules = rules
            self.frail = self.frail or is_frail(rules)
        attempt = Attempt(lease, rules, tag, now, until, job, call)
        self._attempts[lease.receipt.token] = attempt
        if self._stopping:
            self._give_back(attempt, "its worker stops")
        elif late:
            self._give_back(attempt, "it came too late")
        elif lease.counters.stalls and is_poisoned(rules, lease.counters):
            self._settle(attempt, Stalled(), ZERO)  # counted by the broker as it was taken over
        elif call is COME_TO:  # a tick is over at once, and is to be on time: it needs no slot
            self._start(attempt, now, self._report.who_hears_what_goes_well())
        else:
            self._early.line.append(attempt)

    def _start(self, attempt: Attempt, now: float, heard: Sequence[Observer]) -> None:
        attempt.started_at = now
        call, timeout = attempt.call, attempt.rules.timeout
        if call is not COME_TO:
            self._started += 1
        if timeout is not None:
            attempt.deadline = now + timeout
        if call is not None and call.takes_delivery:
            lease, deadline = attempt.lease, attempt.deadline
            attempt.delivery = Delivery(
                lease, self._queue, self._clock, deadline, self.slots.processes, self.heartbeat.hear
            )
        if heard:
            self._report.attempt_started(attempt, heard)
        self.slots.start(attempt)

    async def start(self, parts: Parts) -> None:
        """Be ready to hold something; raise if that cannot be."""
        await self.heartbeat.start()
        parts.start("bee:settler", self.settler.run)
        parts.start("bee:watch", self.slots.watch)
        parts.start("bee:ahead", self._early.watch)  # slots may also become fewer meanwhile

    def resize(self, size: int) -> None:
        """Run so many at once from now on."""
        self.slots.resize(size)
        self._start_early()

    def stop(self, at: float) -> None:
        """Start no more, and give back what comes; what runs may do so until the earliest `at`."""
        self._stopping = True
        self._stop_at = min(self._stop_at, at)
        self._early.give_back("its worker stops")
        self._bell.ring()

    async def drain(self) -> None:
        """Let running jobs end; interrupt what is left when it is time to stop."""
        self._inbox.open()
        while (self.slots.busy or self._early.line) and self._clock.now() < self._stop_at:
            await self._bell.wait(self._stop_at - self._clock.now())
        self.slots.interrupt()
        while self.slots.busy:
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
        self._inbox.clear()
        self._early.line.clear()
        self.settler.drop()
        self.slots.kill()

    def _on_ended(self, ends: Sequence[tuple[Attempt, Outcome]]) -> None:
        """Handlers have ended, or no longer count."""
        if self._dropped:
            return
        self._ended += len(ends)
        for attempt, outcome in ends:
            try:
                if attempt.ending is None and not isinstance(outcome, Failed):
                    self._settle(attempt, outcome, tally(outcome))
                else:
                    self._end(attempt, outcome)
            except Exception as error:  # none is to be held for ever because it cannot be settled
                self._on_failure("the end of a job", error)
        self._start_early()
        self._on_room()
        if not self.slots.running:
            self._bell.ring()

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        """How it did is not all that counts."""
        if isinstance(outcome, Failed) and self._is_ended_with_all(attempt, outcome.error):
            attempt.ending = Interrupted()
        counted = attempt.counted(outcome)
        if counted is None:
            self._forget(attempt)
            self._report.attempt_lost(attempt, None, certain=attempt.ending is LostLease.CERTAIN)
        else:
            self._settle(attempt, counted, tally(counted))

    def _is_ended_with_all(self, attempt: Attempt, error: BaseException) -> bool:
        """Whether it was cancelled together with its worker: as a loop does that is closed."""
        cancelled = isinstance(error, asyncio.CancelledError) and attempt.ending is None
        return cancelled and self._is_cancelled()

    def _settle(self, attempt: Attempt, outcome: Outcome, added: Counters) -> None:
        """Decide what becomes of the message. It is held until the settler has done its work."""
        most = self._queue.max_bytes
        settlement = settlement_for(attempt, outcome, added, self._handlers, self._chance(), most)
        self.settler.put(Ended(attempt, outcome, settlement))

    def _give_back(self, attempt: Attempt, why: str) -> None:
        self.settler.put(Ended(attempt, Interrupted(), give_back(attempt, why)))

    def _forget(self, attempt: Attempt) -> None:
        self._attempts.pop(attempt.lease.receipt.token, None)
        self._on_room()

    def _start_early(self) -> None:
        """As many as there are slots for."""
        early, slots = self._early.line, self.slots
        if not early:
            return
        now, heard = self._clock.now(), self._report.who_hears_what_goes_well()
        while early and len(slots.running) < slots.size:
            self._start(early.popleft(), now, heard)

    # What the parts say.

    def _on_settled(self, batch: Sequence[Ended]) -> None:
        self.settled += len(batch)
        now, ticks = self._clock.now(), []
        for ended in batch:
            self._attempts.pop(ended.settlement.receipt.token, None)
            if ended.attempt.delivery is not None and isinstance(ended.attempt.job, Due):
                ticks.append(ended.attempt)
        self._on_room()
        self._report.attempts_settled(batch, now)
        for tick in ticks:
            self._report.schedule_came(tick.job)
            self._on_tick(tick.job, now - tick.started_at)

    def _on_settlement_lost(self, ended: Ended, certain: bool) -> None:
        self._forget(ended.attempt)
        self._report.attempt_lost(ended.attempt, ended.outcome, certain=certain)

    def _on_refused(self, ended: Ended, error: Exception) -> None:
        self._forget(ended.attempt)
        self._report.settlement_refused(ended, error)

    def _on_lost(self, attempts: Sequence[Attempt], how: LostLease) -> None:
        for attempt in attempts:
            if attempt in self._early.line:
                self._early.line.remove(attempt)
                self._forget(attempt)
                self._report.attempt_lost(attempt, None, certain=how is LostLease.CERTAIN)
            else:
                self.slots.end(attempt, how)

    def _on_blocked(self, culprit: Attempt | None, stack: str) -> None:
        self._report.loop_blocked(list(self.slots.running.copy().values()), culprit, stack)
