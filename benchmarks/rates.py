"""The arithmetic of the benchmark: pure, and tested."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

Progress = Sequence[tuple[int, float]]
"""How many were done at what time, in the order of time."""


def joint_rate(progress: Sequence[Progress]) -> float | None:
    """Jobs a second of all processes together, while all of them are at work.

    From the first report of the last who began to the last report of the first who ended, so that
    starting up counts for nothing. None if there is no such time, or nothing was done in it.
    """
    if not progress or any(len(one) < 2 for one in progress):
        return None
    begin = max(one[0][1] for one in progress)
    end = min(one[-1][1] for one in progress)
    if end <= begin:
        return None
    done = sum(count_at(one, end) - count_at(one, begin) for one in progress)
    return done / (end - begin) if done > 0 else None


def count_at(progress: Progress, time: float) -> float:
    """How many were done at that time, as a straight line between two reports."""
    after = bisect_right(progress, time, key=lambda report: report[1])
    if after == 0:
        return progress[0][0]
    if after == len(progress):
        return progress[-1][0]
    (low, since), (high, until) = progress[after - 1], progress[after]
    return low + (high - low) * (time - since) / (until - since)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def fitting(rate: float, seconds: float, least: int, most: int) -> int:
    """How many jobs take so long at this rate, within bounds, in round numbers."""
    wanted = max(least, min(most, int(rate * seconds)))
    step = int(10 ** max(0, len(str(wanted)) - 2))
    return max(least, wanted // step * step)
