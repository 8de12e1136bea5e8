"""How far back in a queue's line a lease has to look.

All of it, as a rule. But while somebody holds an old snapshot, PostgreSQL can remove nothing that
was deleted since, and every look from the beginning steps over all of it. So when two looks at the
whole line, one after the other, were slow, the next ones begin where the last lease was found. A
whole look follows as soon as it costs no more than a twentieth of the time, and in ten seconds
anyway: it finds what was committed late or sent back.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import TupleRow

from bee_core.message import PRIORITIES

SLOW = 0.01
_SHARE = 20
_LONGEST = 10.0
"""Seconds for which what was committed late may stay unseen, while looks are slow."""
_SLACK = 0.25
"""Seconds by which commits may be out of order and still be seen at once."""


class Line:
    """One queue's line, as one broker has seen it."""

    def __init__(self) -> None:
        self._lows: dict[int, float] = {}
        self._swept = 0.0
        self._again = 0.0
        self._was_slow = False

    def reach(self, now: float) -> tuple[list[float | None] | None, float | None]:
        """The arguments `lows` and `since` of lease.sql."""
        if now >= self._again:
            return None, None
        lows = [self._lows.get(priority) for priority in reversed(PRIORITIES)]
        return lows, now - self._swept + _SLACK

    def looked(self, began: float, ended: float, rows: Sequence[TupleRow], *, whole: bool) -> None:
        """Remember what a look found, and how long it took."""
        self._swept = began
        if whole:
            took = ended - began
            is_slow = took > SLOW  # once, it may have been this program, or the way there
            pause = min(_SHARE * took, _LONGEST) if is_slow and self._was_slow else 0.0
            self._again = ended + pause
            self._was_slow = is_slow
        first: dict[int, float] = {}
        for row in rows:
            first.setdefault(row[11], row[12] - _SLACK)
        self._lows.update(first)

    def forget(self) -> None:
        """Something went back to the front: look at it all."""
        self._again = 0.0
