"""When something is to happen again and again: every so often, or by a crontab's line.

Pure: the instants depend on nothing but what is written here and the data of time zones, so every
worker knows the same ones without a word to the others.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

_EPOCH = datetime(1970, 1, 1)
_STEP = 6 * 3600
"""Clocks are not changed twice within so many seconds."""
_APART = 2 * 86_400
"""No two offsets of a zone are that far apart."""


class Every(msgspec.Struct, frozen=True):
    """Every so many seconds, counted from the epoch."""

    seconds: float

    def after(self, instant: float) -> float:
        """The first instant after this one."""
        number = math.floor(instant / self.seconds)
        while number * self.seconds <= instant:
            number += 1
        return number * self.seconds

    def __str__(self) -> str:
        return f"every {self.seconds:.15g} s"


class Cron(msgspec.Struct, frozen=True):
    """When a clock on a wall in that zone shows what a crontab's line asks for.

    Clocks are changed as Debian's cron sees it. If neither the minute nor the hour begins with a
    star, a time that a clock leaves out is made up for at once, and one that it shows twice counts
    the first time only. Otherwise every minute counts that the clock really shows, as often as it
    does.
    """

    expression: str
    tz: str = "UTC"

    def after(self, instant: float) -> float:
        """The first instant after this one. Raises LookupError if there is none for 50 years."""
        minute, hour = self.expression.split()[:2]
        second = math.floor(instant)
        if minute.startswith("*") or hour.startswith("*"):
            return self._shown_after(second)
        return self._meant_after(second)

    def __str__(self) -> str:
        return f"cron {' '.join(self.expression.split())} {self.tz}"

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.tz)

    def _meant_after(self, second: int) -> float:
        wall = self._wall(second)
        while True:
            wall = self._match_after(wall)
            if (found := self._instant(wall)) > second:
                return found

    def _instant(self, wall: datetime) -> float:
        """When the clock first shows this; or when it leaps over it."""
        late = math.floor(wall.replace(tzinfo=self._zone).timestamp())
        if self._wall(late) == wall:
            return float(late)
        early = math.floor(wall.replace(tzinfo=self._zone, fold=1).timestamp())
        change = self._change(early, late)
        return float(late if change is None else change)

    def _shown_after(self, second: int) -> float:
        """As if the clock were never changed again; and if it is before that, on from there."""
        wall = self._wall(second)
        while True:
            found = second + int((self._match_after(wall) - self._wall(second)).total_seconds())
            change = self._change(second, min(found, second + _APART))
            if change is not None:
                second = change
                wall = self._wall(second) - timedelta(seconds=1)  # what it now shows counts, too
            elif found - second > _APART:  # before that no clock shows it, whatever is changed
                second = found - _APART
                wall = self._wall(second)
            else:
                return float(found)

    def _match_after(self, wall: datetime) -> datetime:
        try:
            return next(CronSim(self.expression, wall))
        except (StopIteration, OverflowError):
            raise LookupError(f"{self}: there is no such day") from None

    def _wall(self, second: int) -> datetime:
        """What the clock on the wall shows."""
        shown = datetime.fromtimestamp(second, self._zone)
        return shown.replace(tzinfo=None, fold=0)

    def _offset(self, second: int) -> float:
        return (self._wall(second) - _EPOCH).total_seconds() - second

    def _change(self, low: int, high: int) -> int | None:
        """When the clock is first changed in (low, high]."""
        offset = self._offset(low)
        while low < high:
            step = min(low + _STEP, high)
            if self._offset(step) != offset:
                while step - low > 1:
                    middle = (low + step) // 2
                    if self._offset(middle) == offset:
                        low = middle
                    else:
                        step = middle
                return step
            low = step
        return None


Timing: TypeAlias = Every | Cron


def latest(timing: Timing, instant: float, now: float) -> float:
    """The last instant that is not after `now`; `instant` is one of them."""
    low, high = instant, now
    while high - low > 1:  # there is none in (high, now]
        middle = (low + high) / 2
        found = timing.after(middle)
        if found > now:
            high = middle
        else:
            low = found
    following = timing.after(low)
    return following if following <= now else low
