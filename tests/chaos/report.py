"""What became of every job of a storm: the numbers, and what must not be."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import bee_core as bee
from bee_core.cli.common.selecting import pages
from bee_core.stored import State
from bee_core.testing import history
from tests.chaos.ledger import Audit, Entry
from tests.chaos.workers import QUEUE
from tests.evidence.proof import Figure

SLACK = 10.0
"""Seconds that a machine with far too much to do may add to a lease, or to a restart."""
MOST_AGAIN = 0.1
"""Handlers that come to their end twice, for each kill."""


@dataclass
class Held:
    """What a store holds at the end."""

    waiting: set[str]
    archived: Counter[str]

    @classmethod
    async def look(cls, store: bee.Store) -> Held:
        held = cls(set(), Counter())
        for state in State:
            async for page in pages(store, QUEUE, state):
                ids = [stored.id for stored in page]
                if state is State.ARCHIVED:
                    held.archived.update(ids)
                else:
                    held.waiting.update(ids)
        return held


@dataclass
class Report:
    """One storm, or several together."""

    lease: float
    sent: int = 0
    done: int = 0
    archived: int = 0
    waiting: int = 0
    lost: int = 0
    settled_twice: int = 0
    sent_twice: int = 0
    """Done, and then sent once more, because the answer to the first send was lost."""
    misplaced: int = 0
    """Archived, and should not be; or not, and should."""
    reused_tokens: int = 0
    unexplained: int = 0
    """Run again, and who had it was not killed; 0 where that has other reasons."""
    kills: int = 0
    only_kills: int = 0
    """Of these, those in storms where a job that ran again had no other reason."""
    restarts: int = 0
    stops: int = 0
    jumps: int = 0
    faults_of_lines: Counter[str] = field(default_factory=Counter)
    cut_short: int = 0
    again_after_kill: int = 0
    again_otherwise: int = 0
    refused: int = 0
    """Settlements of those who had lost their lease."""
    deserters: int = 0
    """Workers that ended although nobody had told them to."""
    stuck: int = 0
    """Workers that took no more jobs when all was well again."""
    redelivered: list[float] = field(default_factory=list)
    """Seconds from a kill to the next run of a job that it cut short."""
    unsettled: list[float] = field(default_factory=list)
    """Seconds from the end of a handler to when its worker knew that it was settled."""
    back: list[float] = field(default_factory=list)
    """Seconds from the return of a server to the next job settled."""
    unfinished: list[str] = field(default_factory=list)
    """What was planned and could not be done in time."""
    records: int = 0
    """Calls and answers that were written down and judged."""
    broken: list[str] = field(default_factory=list)
    """What the history says that must not be."""
    seconds: float = 0.0

    def __add__(self, other: Report) -> Report:
        both = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(self)
            if each.name != "lease"
        }
        return Report(max(self.lease, other.lease), **both)

    @property
    def breaks(self) -> int:
        """Connections that were broken; those that were slow are not among them."""
        return self.faults_of_lines.total() - self.faults_of_lines["slow"]

    @property
    def again_per_kill(self) -> float:
        return self.again_after_kill / max(self.only_kills, 1)

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        wrong = {
            "jobs are lost": self.lost,
            "jobs are left": self.waiting,
            "jobs were settled twice": self.settled_twice,
            "jobs are archived and should not be, or the other way round": self.misplaced,
            "jobs ran twice with one token": self.reused_tokens,
            "jobs ran again although nothing was done to who had them": self.unexplained,
            "workers ended although nobody had told them to": self.deserters,
            "workers took no more jobs": self.stuck,
        }
        found = [f"{count} {what}" for what, count in wrong.items() if count]
        if self.only_kills >= 100 and self.again_per_kill > MOST_AGAIN:
            found.append(f"{self.again_per_kill:.2f} handlers for each kill ended twice")
        if (most := percentile(self.redelivered, 0.99)) > self.lease + SLACK:
            found.append(f"of the jobs of killed workers, 1 in 100 ran only {most:.2f} s later")
        if (slowest := max(self.back, default=0.0)) > SLACK:
            found.append(f"workers took {slowest:.1f} s to come back")
        return found + self.broken[:5] + self.unfinished

    def figures(self) -> dict[str, Figure]:
        """In the order in which they are shown."""
        return {
            "jobs accepted": self.sent,
            "kill -9 of a worker": self.kills,
            "kill -9 of the server": self.restarts,
            "connections broken": self.breaks,
            "connections delayed": self.faults_of_lines["slow"],
            "workers stopped for longer than a lease": self.stops,
            "clock jumps": self.jumps,
            "**lost**": self.lost,
            "**settled twice**": self.settled_twice,
            "done": self.done,
            "archived, as they should be": self.archived,
            "waiting": self.waiting,
            "runs cut short": self.cut_short,
            "ended twice, after a kill": self.again_after_kill,
            "ended twice, per kill": round(self.again_per_kill, 3),
            "ended twice, otherwise": self.again_otherwise,
            "done, then sent again after a lost answer": self.sent_twice,
            "settlements refused, lease lost": self.refused,
            "from a handler's end to the store's word, ms: median": round(
                1000 * percentile(self.unsettled, 0.5), 1
            ),
            "run again after a kill, s: median": round(percentile(self.redelivered, 0.5), 2),
            "run again after a kill, s: 99 %": round(percentile(self.redelivered, 0.99), 2),
            "back at work after a restart, s: slowest": round(max(self.back, default=0.0), 2),
            "workers that took no more jobs": self.stuck,
            "calls and answers checked as a history": self.records,
            "seconds": round(self.seconds),
        }


def percentile(numbers: Sequence[float], part: float) -> float:
    """The number below which that part of them is."""
    ordered = sorted(numbers)
    return ordered[int(part * (len(ordered) - 1))] if ordered else 0.0


def account(
    report: Report, found: Sequence[Entry], held: Held, killed: Mapping[int, float]
) -> None:
    """Count what the ledgers and the store say. `killed` says who was, and when."""
    audit = Audit.of(found)
    meant = {id for id, kept in audit.sent.items() if kept}
    gone = audit.sent.keys() - held.waiting - held.archived.keys()
    report.sent = len(audit.sent)
    report.waiting = len(held.waiting)
    report.archived = len(held.archived)
    report.done = sum(id in audit.ended for id in gone)
    report.lost = len(gone) - report.done
    twice = audit.settled_twice | {id for id, times in held.archived.items() if times > 1}
    twice |= held.waiting & held.archived.keys()
    report.settled_twice = len(twice - audit.unknown)
    report.sent_twice = len(twice & audit.unknown)
    report.misplaced = len(meant ^ (held.archived.keys() | (meant & held.waiting)))
    report.reused_tokens = len(audit.reused_tokens)
    cut_short = audit.cut_short
    report.cut_short = len(cut_short)
    after_kill, otherwise = audit.ended_again(killed)
    if report.only_kills:
        report.unexplained = len(audit.unexplained(killed))
        report.again_after_kill, report.again_otherwise = after_kill, otherwise
    else:  # who was killed later may have been cut off before
        report.again_otherwise = after_kill + otherwise
    report.refused = sum(entry.what == "lost" for entry in found)
    for id, run in cut_short:
        later = [other.at for other in audit.runs[id] if other.token > run.token]
        if run.pid in killed and later:  # if it was not run again, it had been settled, unheard
            report.redelivered.append(min(later) - killed[run.pid])
    ends = {(id, run.token): run.at for id, runs in audit.ended.items() for run in runs}
    report.unsettled = [
        entry.at - ends[entry.id, entry.token]
        for entry in found
        if entry.what == "settled" and (entry.id, entry.token) in ends
    ]
    settled = audit.settled_at
    returns = [entry.at for entry in found if entry.what == "back"]
    report.back = [_next(settled, back) - back for back in returns]


def judge(report: Report, directory: Path, held: Held) -> None:
    """Check the history of all calls: tokens, holders, counters, when a job came again."""
    left = {id: ["live"] for id in held.waiting}
    for id, times in held.archived.items():
        left.setdefault(id, []).extend(["archived"] * times)
    records = history.read(directory)
    report.records = len(records)
    faults = history.check(records, left, within=SLACK)
    report.broken = [f"{fault.kind}: {fault.id} {fault.text}" for fault in faults]


def _next(times: Sequence[float], after: float) -> float:
    index = bisect_right(times, after)
    return times[index] if index < len(times) else math.inf


def table(reports: Mapping[str, Report]) -> list[str]:
    """The figures of several, side by side."""
    columns = {name: report.figures() for name, report in reports.items()}
    names = [name.replace("**", "") for name in next(iter(columns.values()))]
    width = max(map(len, names))
    lines = [" " * width + "".join(f"{title:>13}" for title in columns)]
    for name, row in zip(
        names, zip(*(c.values() for c in columns.values()), strict=True), strict=True
    ):
        lines.append(f"{name:<{width}}" + "".join(f"{_number(figure):>13}" for figure in row))
    return lines


def _number(figure: Figure) -> str:
    return f"{figure:,}" if isinstance(figure, int) else str(figure)
