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
        self._due = [math.inf] * shards
        self._first: Sequence[int] | None = None
        self._only = False

    def order(self) -> list[int]:
        """All parts; each call begins with the next."""
        self._turn = (self._turn + 1) % self._shards
        return [(self._turn + n) % self._shards for n in range(self._shards)]

    def due(self, part: int, at: float) -> None:
        """When something will be ready there by itself, as far as is known."""
        self._due[part] = at

    def pause(self, now: float) -> float:
        """Seconds until something will be ready somewhere by itself."""
        return min(self._due) - now

    def due_by(self, now: float) -> list[int]:
        """Where something should be ready by now."""
        return [part for part, at in enumerate(self._due) if at <= now]

    def woken(self, parts: Sequence[int]) -> None:
        """Something may be ready in these parts: the next lease begins there."""
        self._first, self._only = parts, False

    def polled(self) -> None:
        """A wait was in vain: the next lease looks at some of the parts, in turn."""
        count = math.ceil(self._shards / POLLS)
        self._first, self._only = [(self._turn + 1 + n) % self._shards for n in range(count)], True
        self._turn = (self._turn + count) % self._shards

    def changed(self) -> None:
        """Something was done to the queue here: what was known of it is no longer true."""
        self._first = None

    def plan(self) -> list[Sequence[int]]:
        """Which parts the next lease is to ask; and, if these have nothing, which then."""
        first, only = self._first, self._only
        self._first = None
        if first is None:
            return [self.order()]
        return [first] if only else [first, _without(self.order(), first)]


def _without(parts: Sequence[int], some: Collection[int]) -> list[int]:
    return [part for part in parts if part not in some]
