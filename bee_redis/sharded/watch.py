"""What one broker object knows of the parts of a queue: whose turn it is, and where to look.

Only latency and traffic depend on it. No I/O.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

POLLS = 4
"""An idle worker looks at each part once in so many polls, whatever wake-ups were lost."""


class Watch:
    """The parts of one queue."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._turn = random.randrange(shards)  # so that many workers do not go in step
        self._woken: list[int] = []
        self._polled: Sequence[int] = ()

    def order(self) -> list[int]:
        """All parts; each call begins with the next."""
        self._turn = (self._turn + 1) % self._shards
        return [(self._turn + n) % self._shards for n in range(self._shards)]

    def woken(self, part: int) -> None:
        """Something may be ready in this part: the next lease begins there."""
        self._woken.append(part)

    def polled(self) -> None:
        """A wait was in vain: the next lease looks at some of the parts, in turn."""
        count = math.ceil(self._shards / POLLS)
        self._polled = [(self._turn + 1 + n) % self._shards for n in range(count)]
        self._turn = (self._turn + count) % self._shards

    def changed(self) -> None:
        """Something was done to the queue here: a look at some of the parts will not do."""
        self._polled = ()

    def plan(self) -> tuple[Sequence[int], Sequence[int]]:
        """Which parts the next lease is to ask first; and, if these have nothing, which then."""
        woken, self._woken = list(dict.fromkeys(self._woken)), []
        polled, self._polled = self._polled, ()
        if woken:
            return woken, _without(self.order(), woken)
        return (), polled or self.order()


def _without(parts: Sequence[int], some: Collection[int]) -> list[int]:
    return [part for part in parts if part not in some]
