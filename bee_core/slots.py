"""The attempts that run right now, and the one timer that watches over all of them.

A job costs one task. Its deadline is an entry in a table that a single task looks through when the
earliest one has come, so a job that ends in time never had a timer. When jobs end, the next ones
begin first of all; what else follows is done once for all that have ended meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from bee_core.attempt import Attempt, Ending, Means
from bee_core.clock import Clock
from bee_core.message import attempt_number
from bee_core.meter import Load
from bee_core.outcome import Failed, Interrupted, Outcome, TimedOut
from bee_core.processes import Processes
from bee_core.threads import Threads
from bee_core.ticks import COME_TO
from bee_core.tracing import Tracing, traced_run

_TURN = 0.01
"""Seconds that even a handler without any grace has to hear that it must stop."""


class Slots:
    """Runs up to `size` attempts at once and stops those that must stop.

    When some have ended `on_free` may start others in the next turn of the event loop, and
    `on_ended` hears of all that have ended, and how, in the turn after that.
    """

    def __init__(
        self,
        name: str,
        size: int,
        clock: Clock,
        *,
        cancel_grace: float,
        tracing: Tracing | None = None,
        on_free: Callable[[], None],
        on_ended: Callable[[Sequence[tuple[Attempt, Outcome]]], None],
        on_stuck: Callable[[Attempt], None],
    ) -> None:
        self._name = name
        self._prefix = f"bee:{name}:"
        self._context = contextvars.copy_context()
        self.size = size
        self._clock = clock
        self._cancel_grace = cancel_grace
        self._tracing = tracing
        self._on_free = on_free
        self._on_ended = on_ended
        self._on_stuck = on_stuck
        self._threads = Threads(name)
        self._alarm = clock.alarm()
        self._next_check = math.inf
        self._peak = 0
        self.processes = Processes(size, patience=max(cancel_grace, _TURN))
        self._means = Means(name, self._threads, self.processes, self._abandoned)
        self.running: dict[int, Attempt] = {}
        """By token."""
        self._left: list[tuple[Attempt, Outcome]] = []  # those that are to be told of
        self.stuck = 0
        """Handlers that were told to stop, did not, and run on without a slot."""

    @property
    def busy(self) -> bool:
        """Whether any runs, or has ended a moment ago and is to be told of."""
        return bool(self.running or self._left)

    def resize(self, size: int) -> None:
        """From now on run that many at once. Nothing that runs is stopped."""
        self.size = self.processes.size = size

    def load(self, *, hungry: bool) -> Load:
        """What there was to do since this was last asked; `hungry` if there was more to be had."""
        peak, self._peak = self._peak, len(self.running)
        return Load(peak, hungry and peak >= self.size)

    def start(self, attempt: Attempt) -> None:
        """Call its handler in a task of its own."""
        receipt = attempt.lease.receipt
        attempt.running = True
        self.running[receipt.token] = attempt
        if len(self.running) > self._peak:
            self._peak = len(self.running)
        work: Coroutine[Any, Any, object]
        if self._tracing is None or attempt.call is COME_TO:
            work = attempt.run(self._means, self._leave)
        else:
            work = self._run_traced(attempt, self._tracing)
        loop = asyncio.get_running_loop()
        attempt.task = loop.create_task(work, name=self._prefix + receipt.id)
        attempt.check_at = attempt.deadline
        if attempt.deadline < self._next_check:
            self._look_at(attempt.deadline)

    def end(self, attempt: Attempt, ending: Ending, patience: float | None = None) -> None:
        """Tell a handler to stop, and why; after `patience` once more; after that, give it up."""
        self._see_to_cancelled(attempt)
        if attempt.ending is None and attempt.running:
            attempt.ending = ending
            grace = self._cancel_grace if patience is None else patience
            attempt.patience = max(grace, _TURN)
            self._cancel(attempt)

    def interrupt(self) -> None:
        """Tell all that run to stop, as the worker does. They have a second at most to do so."""
        for attempt in list(self.running.values()):
            self.end(attempt, Interrupted(), patience=min(1.0, self._cancel_grace))

    async def watch(self) -> None:
        """Look after every attempt whose time has come, then sleep until the next one."""
        while True:
            for attempt in list(self.running.values()):
                self._see_to_cancelled(attempt)
            now = self._clock.now()
            for attempt in [a for a in self.running.values() if a.check_at <= now]:
                if attempt.ending is None:
                    self.end(attempt, TimedOut(attempt.rules.timeout or 0.0, attempt.where))
                elif attempt.cancels < 2:
                    self._cancel(attempt)
                else:
                    self._give_up(attempt)
            checks = (attempt.check_at for attempt in self.running.values())
            self._next_check = min(checks, default=math.inf)
            await self._alarm.wait(self._next_check - now)

    def look(self) -> None:
        """See to those that somebody else has cancelled, though none is due."""
        self._alarm.ring()

    def kill(self) -> None:
        """Cancel everything that runs, and do not look back."""
        for attempt in self.running.values():
            if attempt.task is not None:
                attempt.task.cancel()

    async def aclose(self) -> None:
        """End child processes; let idle threads end."""
        await self.processes.aclose()
        self._threads.close()

    async def _run_traced(self, attempt: Attempt, tracing: Tracing) -> None:
        outcome = await traced_run(
            tracing,
            self._name,
            attempt.lease,
            attempt.tag,
            attempt_number(attempt.lease.counters),
            partial(attempt.run, self._means),
            attempt.counted,
        )
        self._leave(attempt, outcome)

    def _cancel(self, attempt: Attempt) -> None:
        assert attempt.task is not None
        attempt.cancels += 1
        attempt.task.cancel()
        asyncio.get_running_loop().call_soon(self._see_to_cancelled, attempt)
        attempt.check_at = self._clock.now() + attempt.patience
        if attempt.check_at < self._next_check:
            self._look_at(attempt.check_at)

    def _look_at(self, when: float) -> None:
        """Have the watch look then. It is told a turn later: what has just started goes first."""
        self._next_check = when
        asyncio.get_running_loop().call_soon(self._alarm.ring)

    def _see_to_cancelled(self, attempt: Attempt) -> None:
        """A task that somebody has cancelled before it had begun says nothing of its end."""
        if attempt.running and attempt.task is not None and attempt.task.done():
            self._leave(attempt, Failed(asyncio.CancelledError()))

    def _leave(self, attempt: Attempt, outcome: Outcome) -> None:
        if not attempt.running:  # it was given up before, and has ended now
            self.stuck -= 1
            return
        attempt.running, attempt.task = False, None
        del self.running[attempt.lease.receipt.token]
        self._left.append((attempt, outcome))
        if len(self._left) == 1:
            # In the worker's own context: the next ones are started there.
            asyncio.get_running_loop().call_soon(self._refill, context=self._context)

    def _refill(self) -> None:
        """First of all the next ones are to begin: what has ended can wait until they have."""
        try:
            self._on_free()
        finally:
            asyncio.get_running_loop().call_soon(self._tell_left)

    def _tell_left(self) -> None:
        left, self._left = self._left, []
        self._on_ended(left)

    def _give_up(self, attempt: Attempt) -> None:
        """It ignores its cancellation and runs on; its slot and its message do not wait."""
        self.stuck += 1
        self._on_stuck(attempt)
        self._leave(attempt, Failed(asyncio.CancelledError()))

    def _abandoned(self, attempt: Attempt, work: asyncio.Future[object]) -> None:
        """Its task was stopped, but no thread can be: the handler runs on."""
        self.stuck += 1
        work.add_done_callback(self._abandoned_ended)
        self._on_stuck(attempt)

    def _abandoned_ended(self, work: asyncio.Future[object]) -> None:
        self.stuck -= 1
        if not work.cancelled():
            work.exception()  # looked at, so that asyncio does not complain: nobody wants it
