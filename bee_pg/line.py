"""How far back in a queue's line a lease has to look.

All of it, as a rule. But what was deleted stays in the index until it is vacuumed, and while one
holds an old snapshot it cannot be; every look from the beginning steps over all of it. And where
many lease at once, each tries the rows that the others have just locked, one by one. So when two
looks at the whole line, one after the other, were slow, the next ones begin where the last lease
ended, and pass by what bears the mark of a lock. Those who want many take turns then
(sql/queue_up.sql), and begin where another has come to; but not one who has gone back, and has yet
to take all that a whole look has found there. A whole look follows as soon as it costs no more than
a hundredth of the time, because all who lease make theirs, and in ten seconds anyway: it finds what
was committed late, sent back, changed, or locked by one who failed. And where a look has not found
enough, the same call looks at the whole line, and so does the next one: nobody waits for a message
that is there.
"""

from __future__ import annotations

from bee_core.message import PRIORITIES
from bee_pg.records import Leased

_SLOW = 0.001
"""Seconds from which on a look at the whole line is slow."""
_SLOW_FOR_MANY, _MANY = 0.0003, 50
"""The same where so many are found at once. A hundred take as long with no dead rows in front: then
there is a whole look every thirty milliseconds."""
_SHARE = 100
"""While looks are slow, one at the whole line is followed by so many times as long without."""
_LONGEST = 10.0
"""Seconds for which what was committed late may stay unseen, while looks are slow."""
_SLACK = 0.25
"""Seconds by which commits may be out of order and still be seen at once."""


class Line:
    """One queue's line, as one broker has seen it."""

    def __init__(self) -> None:
        self._lows: dict[int, float] = {}
        """Where the last lease ended, by priority, in seconds since the epoch."""
        self._furthest: dict[int, float] = {}
        """The same for the lease that came furthest."""
        self._swept = 0.0
        """When leases that ran out were last looked for."""
        self._again = 0.0
        """When the whole line is to be looked at next."""
        self._took = 0.0
        """Seconds that the last look at the whole line took."""

    def reach(self, now: float) -> tuple[list[float | None] | None, float | None]:
        """The arguments `lows` and `since` of lease.sql."""
        if now >= self._again:
            return None, None
        lows = [self._lows.get(priority) for priority in reversed(PRIORITIES)]
        return lows, now - self._swept + _SLACK

    def follows(self) -> list[bool]:
        """The argument of that name: whether it has come as far as it ever had, by priority."""
        return [self._lows.get(p) == self._furthest.get(p) for p in reversed(PRIORITIES)]

    def looked(
        self, began: float, ended: float, found: Leased, *, whole: bool, enough: bool
    ) -> None:
        """Remember what a look found, and whether that was as much as it was to find."""
        self._swept = began
        if not enough:
            self._again = 0.0
        if whole:
            took = found.took if found.lasts else self._took  # by the server: we may have been slow
            slow = _SLOW_FOR_MANY if len(found.leases) >= _MANY else _SLOW
            is_slow = took > slow and self._took > slow  # once may be chance
            self._again = ended + min(_SHARE * took, _LONGEST) if is_slow and enough else 0.0
            self._took = took
        for priority, due in found.lasts.items():
            low = min(due, found.at - _SLACK)
            self._lows[priority] = low
            self._furthest[priority] = max(low, self._furthest.get(priority, low))

    def forget(self) -> None:
        """Something went back to the front: look at it all."""
        self._again = 0.0
