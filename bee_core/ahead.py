"""Leasing a little ahead: how much more to ask for than there are free slots.

While the answer to a lease is on its way, jobs end and their slots stand empty. So a worker asks
for as many more as will have ended by then, judged by how fast jobs end and how long a lease takes.
Where jobs take long that is none at all.
"""

from __future__ import annotations

from bee_core.fetcher import BATCH

PATIENCE = 0.5
"""Seconds that a message may wait for its slot; jobs take longer than they did, and others may
have a slot for it."""
_LEASES = 2.0
"""As much as ends during so many leases: the next one begins only after this one."""
_WEIGHT = 0.3
"""How much the last lease counts, beside all before it."""
_STALE = 0.1
"""Seconds after which it matters how much has ended since the last lease."""


class Pace:
    """How many jobs end while a lease is under way."""

    def __init__(self) -> None:
        self._took = self._rate = 0.0
        self._at = self._ended = 0.0

    def leased(self, began: float, now: float, ended: int) -> None:
        """A lease took from `began` to `now`; so many jobs have ended by now."""
        self._took += _WEIGHT * (now - began - self._took)
        if now > self._at > 0:
            self._rate += _WEIGHT * ((ended - self._ended) / (now - self._at) - self._rate)
        self._at, self._ended = now, ended

    def ahead(self, now: float, ended: int) -> int:
        """How many to ask for beside those there is a free slot for."""
        rate = self._rate
        if now - self._at > _STALE:
            rate = min(rate, (ended - self._ended) / (now - self._at))
        return min(int(_LEASES * rate * self._took), BATCH)
