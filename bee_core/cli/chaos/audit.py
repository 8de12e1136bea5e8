"""What became of every job that was sent: pure, from what the store holds at the end.

The jobs were sent so that success archives them. So each must still be in the store, but for those
that a handler or a policy has deleted, of which an event tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from bee_core.message import Counters
from bee_core.outcome import COUNTED
from bee_core.stored import State, Stored

_CAUSES = {
    "stalls": "their process was killed or cut off",
    "errors": "they failed, and were repeated",
    "timeouts": "they took too long, and were repeated",
    "releases": "they were given back: a worker stopped, or the handler asked for it",
    "unknowns": "no handler knew their kind",
}
_SHOWN = 5


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, in numbers."""

    sent: int
    done: int
    archived: Mapping[str, int]
    """By reason."""
    waiting: int
    deleted: int
    """By a handler or a policy; an event says so."""
    lost: tuple[str, ...]
    runs: int
    repeated: int
    """Jobs that were delivered more than once."""
    causes: Mapping[str, int]
    """Deliveries beyond the first of each job, by the counter that tells why."""
    unexplained: tuple[str, ...]
    """Jobs that were delivered more often than their counters explain."""

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        found = []
        if self.lost:
            found.append(f"{len(self.lost)} jobs are lost: {_some(self.lost)}")
        if self.unexplained:
            what = "were run again, and nothing says why"
            found.append(f"{len(self.unexplained)} jobs {what}: {_some(self.unexplained)}")
        return found

    def lines(self) -> list[str]:
        """As a small table."""
        reasons = ", ".join(f"{reason.replace('_', ' ')} {n}" for reason, n in _by(self.archived))
        shown = [
            f"sent      {self.sent}",
            f"done      {self.done}",
            f"archived  {sum(self.archived.values())}" + (f"  ({reasons})" if reasons else ""),
            f"waiting   {self.waiting}",
        ]
        shown += [f"deleted   {self.deleted}  (by a handler or a policy)"] if self.deleted else []
        shown += [f"lost      {len(self.lost)}", f"runs      {self.runs}"]
        shown += [f"repeated  {self.repeated} jobs ran more than once"] if self.repeated else []
        return shown + [f"          {n} x because {_CAUSES[name]}" for name, n in _by(self.causes)]


def audit(
    sent: Collection[tuple[str, str]],
    found: Mapping[tuple[str, str], Stored],
    deleted: Collection[tuple[str, str]],
) -> Audit:
    """Account for every job, named by its queue and id. `deleted` are those that events tell of."""
    archived: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    waiting = gone = runs = repeated = 0
    lost: list[str] = []
    unexplained: list[str] = []
    for place in sent:
        stored = found.get(place)
        if stored is None:
            gone += place in deleted
            lost += [] if place in deleted else [place[1]]
            continue
        runs += stored.counters.deliveries
        reason = None
        if stored.state is State.ARCHIVED:
            reason = "ruled" if stored.note is None else stored.note.reason
            archived[reason] += 1
        else:
            waiting += 1
        again = explained(stored.counters, reason)
        causes += again
        repeated += stored.counters.deliveries > 1
        if stored.counters.deliveries - 1 > sum(again.values()):
            unexplained.append(place[1])
    done = archived.pop("succeeded", 0)
    return Audit(
        sent=len(sent),
        done=done,
        archived=archived,
        waiting=waiting,
        deleted=gone,
        lost=tuple(lost),
        runs=runs,
        repeated=repeated,
        causes=causes,
        unexplained=tuple(unexplained),
    )


def explained(counters: Counters, reason: str | None) -> Counter[str]:
    """Why there was a next delivery, each time; not why there was none after the last one."""
    found = Counter({name: getattr(counters, name) for name in _CAUSES})
    last = COUNTED.get(reason or "")
    if last is not None and found[last]:
        found[last] -= 1
    return +found


def _by(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def _some(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
