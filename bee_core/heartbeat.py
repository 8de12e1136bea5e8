"""Renewing leases from a thread of its own.

The thread has its own event loop and its own clone of the broker, so a handler that blocks
the worker's loop does not lose its lease. It renews what has been held for a third of a lease,
tells the worker what is lost, and notices when the worker's loop no longer answers.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from bee_core.attempt import Attempt, LostLease
from bee_core.broker import Broker
from bee_core.clock import Clock, finish


class Heartbeat:
    """Renews the leases of one worker until it is stopped."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        *,
        lease: float,
        clock: Clock,
        held: Callable[[], Sequence[Attempt]],
        patience: float,
        on_lost: Callable[[Sequence[Attempt], LostLease], None],
        on_trouble: Callable[[Exception | None], None],
        on_blocked: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._lease = lease
        self._clock = clock
        self._held = held
        self._patience = patience
        self._on_lost = on_lost
        self._on_trouble = on_trouble
        self._on_blocked = on_blocked
        self._alarm = clock.alarm()
        self._idle = False
        self._stopping = False
        self._troubled = False
        self._unanswered = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker_thread = 0
        self._ended: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Return when the thread is up and waiting."""
        self._loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._ended = self._loop.create_future()
        up = self._loop.create_future()
        name = f"bee:heartbeat:{self._queue}"
        threading.Thread(target=self._run, args=(up,), name=name, daemon=True).start()
        await up

    async def stop(self) -> None:
        """Return when the thread has ended and its broker is closed."""
        if self._ended is None:
            return
        self._stopping = True
        self._alarm.ring()
        await self._ended

    def poke(self) -> None:
        """Something is held again. Cheap to call for every job."""
        if self._idle:
            self._idle = False
            self._alarm.ring()

    # All below runs in the heartbeat's own thread.

    def _run(self, up: asyncio.Future[None]) -> None:
        try:
            asyncio.run(self._beat(up))
        finally:
            assert self._ended is not None
            self._tell(partial(finish, up))
            self._tell(partial(finish, self._ended))

    async def _beat(self, up: asyncio.Future[None]) -> None:
        broker = self._broker.clone()
        try:
            self._idle = True
            waiting = asyncio.ensure_future(self._alarm.wait(math.inf))
            await asyncio.sleep(0)  # it waits now, so that a clock that is moved finds it
            self._tell(partial(finish, up))
            await waiting
            while not self._stopping:
                self._idle = True  # before looking: who is held from here on will poke
                pause = await self._round(broker)
                self._idle = pause == math.inf and self._idle
                await self._alarm.wait(pause)
        finally:
            await broker.aclose()

    async def _round(self, broker: Broker) -> float:
        """Renew what is due; return the seconds until the next round."""
        before = self._clock.now()
        held = [attempt for attempt in self._held() if self._deserves(attempt, before)]
        if not held:
            self._unanswered = 0
            return math.inf
        self._watch_loop()
        third = self._lease / 3
        old = [a for a in held if a.leased_until - before <= 2 * third + 0.001]
        if old:
            try:
                lost = await broker.extend(
                    self._queue, [a.lease.receipt for a in old], duration=self._lease
                )
            except Exception as error:  # whatever a broker raises, the thread must go on
                return self._after_failure(old, error)
            self._after_success(old, lost, before)
        soonest = min(attempt.leased_until for attempt in held)
        return max(soonest - 2 * third - self._clock.now(), third / 10)

    def _after_success(
        self, old: Sequence[Attempt], lost: AbstractSet[object], before: float
    ) -> None:
        for attempt in old:
            if attempt.lease.receipt not in lost:
                attempt.leased_until = before + self._lease
        gone = [attempt for attempt in old if attempt.lease.receipt in lost]
        if gone:
            self._tell(partial(self._on_lost, gone, LostLease.CERTAIN))
        if self._troubled:
            self._troubled = False
            self._tell(partial(self._on_trouble, None))

    def _after_failure(self, old: Sequence[Attempt], error: Exception) -> float:
        """Try again soon; what cannot be renewed in time is lost, as far as can be known here."""
        now = self._clock.now()
        overdue = [attempt for attempt in old if attempt.leased_until <= now]
        if overdue:
            self._tell(partial(self._on_lost, overdue, LostLease.PRESUMED))
        if not self._troubled:
            self._troubled = True
            self._tell(partial(self._on_trouble, error))
        return min(1.0, self._lease / 10)

    def _deserves(self, attempt: Attempt, now: float) -> bool:
        """A run that is past its own deadline, and past all patience, is not kept alive."""
        deadline = attempt.delivery.deadline if attempt.delivery is not None else math.inf
        return not attempt.running or now < deadline + self._patience

    def _watch_loop(self) -> None:
        """Ask the worker's loop for a sign; report it if the last question is still open."""
        if self._unanswered == 1:
            frame = sys._current_frames().get(self._worker_thread)
            self._on_blocked("".join(traceback.format_stack(frame)) if frame else "")
        self._unanswered += 1
        self._tell(self._answer)

    def _answer(self) -> None:
        self._unanswered = 0

    def _tell(self, callback: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the worker's loop is closed: there is nobody left to tell
            self._stopping = True
