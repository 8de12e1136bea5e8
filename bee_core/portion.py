"""How many messages to ask for at once: as many as there is room for, unless that was too much.

If the answer to a lease does not come in time, the store has leased them and nobody holds them:
each waits for the end of its lease, and counts a stall. Where a connection is slow or messages are
large, to ask for as many again would go on for ever. So a lease that fails is followed by smaller
ones. They grow again as they work: at once to half of what failed first, and beyond that step by
step, a minute each. Most of the time it was the server that failed, and no lease too large.
"""

from __future__ import annotations

from bee_core.batches import BATCH

LEAST = 50
"""What is never too much."""
_CAUTION = 60.0
"""Seconds before as much as has failed is asked for again."""


class Portion:
    """That of one worker."""

    def __init__(self) -> None:
        self.most = BATCH
        """How many to ask for now, at most."""
        self._bearable = BATCH
        self._failing = False
        self._again = 0.0

    def failed(self, asked: int, now: float) -> None:
        """A lease of so many was not answered, or not well."""
        if asked > LEAST:
            if not self._failing:
                self._bearable, self._again = max(LEAST, asked // 2), now + _CAUTION
            self.most = max(LEAST, asked // 2)
        self._failing = True

    def worked(self, now: float) -> None:
        """One was answered."""
        self._failing = False
        if self.most == BATCH:
            return
        if now >= self._again:
            self._bearable, self._again = min(BATCH, 2 * self._bearable), now + _CAUTION
        self.most = min(self._bearable, 2 * self.most)
