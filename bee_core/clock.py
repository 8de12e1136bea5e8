"""Where time comes from: for the worker, and for stores that have no clock of their own.

Nothing else makes bee wait. `bee_core.testing.ManualClock` is one that tests move. Dates that
people give or read, such as `at=` and what `bee doctor` shows, are by the machine's own.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from typing import Protocol


class Alarm(Protocol):
    """A sleep that anybody may cut short. One waiter at a time; any thread may ring."""

    async def wait(self, seconds: float) -> None:
        """Return after `seconds` (math.inf: never), or as soon as it rings or has rung before."""
        ...

    def ring(self) -> None:
        """End the wait under way, or else the next one at once."""
        ...


class Clock(Protocol):
    """Time that only moves forward. Safe to use from any thread and any event loop."""

    def now(self) -> float:
        """Seconds since the epoch at the start of the program, never stepping back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock; at once if that is not positive."""
        ...

    def alarm(self) -> Alarm:
        """A new alarm of this clock."""
        ...


class SystemClock:
    """The machine's time, read from the monotonic clock so that steps do not touch it."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def alarm(self) -> Alarm:
        return SystemAlarm()


class SystemAlarm:
    """An alarm on the event loop's own timers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._rung or seconds <= 0:
                self._rung = False
                return
            sleeper = self._sleeper = loop.create_future()
        timer = loop.call_later(seconds, finish, sleeper) if seconds < math.inf else None
        try:
            await sleeper
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._rung, self._sleeper = False, None

    def ring(self) -> None:
        with self._lock:
            sleeper = self._sleeper
            if self._rung:
                return
            self._rung = True
        if sleeper is not None:
            sleeper.get_loop().call_soon_threadsafe(finish, sleeper)


def finish(future: asyncio.Future[None]) -> None:
    """Complete a future that may have been completed or cancelled already."""
    if not future.done():
        future.set_result(None)


def fail(future: asyncio.Future[None], error: Exception) -> None:
    """The same with an error."""
    if not future.done():
        future.set_exception(error)


SYSTEM_CLOCK: Clock = SystemClock()
