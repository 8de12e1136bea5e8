"""An alarm for calls that follow each other, each with a time at which it has to be over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Rings at the time that was set last, in one event loop. Most calls are over long before that.

    So one timer of the loop serves many of them: when it goes off too early it is set anew. A timer
    for each call, and its end, cost more than all else that a deadline does.
    """

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._goes_off = math.inf

    def set(self, at: float) -> None:
        """Ring then, by the loop's clock, and not when it was said before."""
        self._at = at
        if at < self._goes_off:
            self._wind()

    def rest(self) -> None:
        """Do not ring until it is set again."""
        self._at = math.inf

    def cancel(self) -> None:
        """Do not ring, and keep nothing in the loop."""
        self._at = self._goes_off = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._goes_off = self._at
        self._timer = self._loop.call_at(self._at, self._go_off)

    def _go_off(self) -> None:
        self._timer, self._goes_off = None, math.inf
        if self._loop.time() >= self._at:
            self._at = math.inf
            self._ring()
        elif self._at < math.inf:
            self._wind()
