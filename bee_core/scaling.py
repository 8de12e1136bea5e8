"""How many workers a queue needs: from two looks at it to a number.

Pure: no broker, no clock, no cluster. Take `QueueStats` twice, make a `Flow` of them, ask `wanted`,
and tell whatever starts your workers. It works when there are none, since only the store is asked.
"""

from __future__ import annotations

import math

import msgspec

from bee_core.checks import check_whole
from bee_core.duration import Duration, seconds
from bee_core.errors import InvalidOption
from bee_core.stored import QueueStats


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue moved between two looks at it. Rates are jobs per second."""

    arrival: float
    """Jobs that fell due: sent without delay, or their delay was over, or to be repeated."""
    service: float
    """Jobs that came to their end."""
    backlog: int
    """Jobs that are due and that nobody runs."""
    running: float
    """Jobs that somebody runs, on the average of the two looks."""
    oldest_due: float
    """Seconds for which the longest-due of the backlog has been waiting; 0 if there is none."""
    paused: bool = False

    @property
    def drain_time(self) -> float:
        """Seconds until the backlog is gone if all goes on like this; math.inf if it will not."""
        if not self.backlog:
            return 0.0
        gain = self.service - self.arrival
        return self.backlog / gain if gain > 0 else math.inf

    @property
    def run_time(self) -> float | None:
        """Seconds that one job takes, as far as that can be told: as many run as end in it."""
        return self.running / self.service if self.running and self.service else None


def flow(before: QueueStats, after: QueueStats, elapsed: Duration) -> Flow:
    """What happened between two looks, `elapsed` seconds apart.

    A queue that was dropped in between seems to have stood still.
    """
    time = seconds(elapsed, "elapsed", least=0.001)
    ended = max(0, after.ended - before.ended)
    grown = (after.ready + after.leased) - (before.ready + before.leased)
    return Flow(
        arrival=max(0, ended + grown) / time,
        service=ended / time,
        backlog=after.ready,
        running=(before.leased + after.leased) / 2,
        oldest_due=after.oldest_due or 0.0,
        paused=after.paused,
    )


def wanted(
    flow: Flow,
    *,
    current: int,
    most: int,
    least: int = 0,
    concurrency: int = 10,
    per_worker: float | None = None,
    target: Duration = 60.0,
    spin_up: Duration = 0.0,
) -> int:
    """How many workers there should be, when `current` are there.

    As many as keep up with what arrives and work off the backlog within `target`; the backlog now,
    or the one to be expected after `spin_up`, the time a worker takes to start, if that is longer.

    per_worker    jobs that one worker ends in a second when it is busy; if left out, it is taken
                  from how long jobs take and from `concurrency`, the jobs it runs at once
    least, most   bounds of the answer

    While it is not known how fast jobs are, there is one worker to begin with, twice as many each
    time that the oldest job has waited for longer than `target`, and half of them when all seem
    idle. Never more than would have something to run.
    """
    check_whole(current, "current", least=0)
    check_whole(least, "least", least=0)
    check_whole(most, "most", least=least)
    check_whole(concurrency, "concurrency", least=1)
    if per_worker is not None and not (
        isinstance(per_worker, int | float) and 0 < per_worker < math.inf
    ):
        raise InvalidOption(f"per_worker must be a number of jobs above 0, not {per_worker!r}")
    patience = seconds(target, "target", least=0.001)
    ahead = seconds(spin_up, "spin_up")
    if flow.paused or not (flow.backlog or flow.running or flow.arrival):
        return least
    backlog = max(flow.backlog, flow.backlog + ahead * (flow.arrival - flow.service))
    rate = per_worker or _rate(flow, concurrency)
    if rate is not None:
        number = (flow.arrival + backlog / patience) / rate
    elif flow.oldest_due > patience:
        number = 2.0 * current
    elif flow.backlog or flow.running:
        number = current
    else:
        number = current / 2
    useful = (backlog + flow.running + flow.arrival * patience) / concurrency
    return min(most, max(least, 1, math.ceil(min(number, useful) - 1e-9)))


def _rate(flow: Flow, concurrency: int) -> float | None:
    """Jobs that one worker ends in a second when all its slots are full, if that can be told."""
    time = flow.run_time
    return None if time is None else concurrency / time
