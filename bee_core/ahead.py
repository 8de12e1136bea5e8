"""Leasing a little ahead: how much more to ask for than there are slots, and what waits for one.

While the answer to a lease is on its way, jobs end and their slots stand empty. So a worker asks
for as many more as will have ended by then, judged by how fast jobs end and how long a lease takes.
Where jobs take long that is next to none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from bee_core.attempt import Attempt
from bee_core.batches import BATCH
from bee_core.clock import Clock
from bee_core.message import Counters, Lease
from bee_core.strategy import Rules
from bee_core.verdict import is_poisoned

PATIENCE = 0.5
"""Seconds that a message may wait for its slot; jobs take longer than they did, and others may
have a slot for it."""
_LEASES = 2.0
"""As much as ends during so many leases: the next one begins only after this one."""
_LEAST = 0.01
"""And at least as much as ends in so many seconds: many that end at once must not wait for it."""
_BYTES = 8 * 1024 * 1024
"""But of large ones no more than that: neither ahead nor in one lease."""
_AT_FIRST = 250
"""Messages in the first lease, at most: how large they are is not known yet."""
_WEIGHT = 0.3
"""How much the last lease counts, beside all before it."""
_STALE = 0.1
"""Seconds after which it matters how much has ended since the last lease."""


class Pace:
    """How many jobs end while a lease is under way."""

    def __init__(self) -> None:
        self._took = self._rate = 0.0
        self._at = self._ended = 0.0
        self._size = _BYTES / _AT_FIRST  # bytes of a message

    def leased(self, leases: Sequence[Lease], began: float | None, now: float, ended: int) -> None:
        """These took from `began` to `now`, if that says anything; so many have ended by now."""
        if leases:
            self._size = max(1.0, sum([len(lease.body) for lease in leases]) / len(leases))
        if began is None:
            return
        self._took += _WEIGHT * (now - began - self._took)
        if now > self._at > 0:
            weight = _WEIGHT if now - self._at < _STALE else 1.0
            self._rate += weight * ((ended - self._ended) / (now - self._at) - self._rate)
        self._at, self._ended = now, ended

    def ahead(self, now: float, ended: int) -> int:
        """How many to ask for beside those there is a free slot for."""
        rate = self._rate
        if now - self._at > _STALE:
            rate = min(rate, (ended - self._ended) / (now - self._at))
        return int(min(rate * max(_LEASES * self._took, _LEAST), BATCH, self.bearable))

    @property
    def bearable(self) -> int:
        """How many of the size of the last ones are not too much for one answer."""
        return max(1, int(_BYTES / self._size))


_ONE_STALL = Counters(stalls=1)


def is_frail(rules: Rules) -> bool:
    """Whether one stall ends a job: then none is leased before it can run."""
    return is_poisoned(rules, _ONE_STALL)


class Early:
    """What was leased and waits for a slot. `give_back` gives one back, and says why."""

    def __init__(self, clock: Clock, give_back: Callable[[Attempt, str], None]) -> None:
        self.line: deque[Attempt] = deque()
        """In the order in which they start."""
        self._clock = clock
        self._give_back = give_back
        self._more = clock.alarm()

    def added(self) -> None:
        """Some wait now."""
        self._more.ring()

    def give_back_frail(self) -> None:
        """Those that must not wait here."""
        for attempt in [one for one in self.line if is_frail(one.rules)]:
            self.line.remove(attempt)
            self._give_back(attempt, "no slot was free")

    def give_back(self, why: str, before: float = math.inf) -> None:
        """All that were leased before then."""
        while self.line and self.line[0].started_at <= before:
            self._give_back(self.line.popleft(), why)

    async def watch(self) -> None:
        """Give back what has waited for its slot for too long, for ever."""
        while True:
            self.give_back("no slot was free in time", self._clock.now() - PATIENCE)
            first = self.line[0].started_at if self.line else math.inf
            await self._more.wait(first + PATIENCE - self._clock.now())
