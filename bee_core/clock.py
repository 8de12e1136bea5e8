"""Where time comes from: for the worker, and for stores that have no clock of their own.

Nothing else in bee reads a clock. `bee_core.testing.ManualClock` is one that tests move.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time that only moves forward. Safe to use from any thread and any event loop."""

    def now(self) -> float:
        """Seconds since the epoch at the start of the program, never stepping back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock; at once if that is not positive."""
        ...


class SystemClock:
    """The machine's time, read from the monotonic clock so that steps do not touch it."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


SYSTEM_CLOCK: Clock = SystemClock()
