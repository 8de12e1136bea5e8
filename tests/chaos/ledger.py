"""A record of what really ran, kept outside the broker under test, and the audit of it.

Each process appends lines to a file of its own with plain writes, so a line is there or it is not,
also if the process is killed in the next instant. Times are those of the machine's monotonic clock,
which is the same in all processes, and does not jump.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Ledger:
    """Where one process writes down what it does."""

    def __init__(self, directory: Path, number: int | None = None) -> None:
        self._pid = os.getpid() if number is None else number
        path = directory / f"{self._pid}.ledger"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, id: str, token: int = 0) -> None:
        """Write down that this happened, now."""
        line = f"{what} {id} {token} {self._pid} {time.monotonic():.6f}\n"
        os.write(self._file, line.encode())

    def close(self) -> None:
        """There is nothing more to write."""
        os.close(self._file)


class Entry(NamedTuple):
    """A line of a ledger."""

    what: str
    id: str
    token: int
    pid: int
    at: float


def entries(directory: Path) -> list[Entry]:
    """All lines of all ledgers, in the order of their times."""
    lines = [line for path in directory.glob("*.ledger") for line in path.read_text().splitlines()]
    return sorted((_entry(line) for line in lines), key=lambda entry: entry.at)


def _entry(line: str) -> Entry:
    what, id, token, pid, at = line.split()
    return Entry(what, id, int(token), int(pid), float(at))


class Run(NamedTuple):
    """One time that a handler was called."""

    token: int
    pid: int
    at: float


@dataclass
class Audit:
    """What the ledgers of a run say."""

    sent: dict[str, int] = field(default_factory=dict)
    """By id: the number that was written down with it."""
    unknown: set[str] = field(default_factory=set)
    """Ids that were sent once more, because the first answer was lost."""
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    """By id, in the order of tokens."""
    ended: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    """By id: the runs whose handler came to its end."""
    failed: set[tuple[str, int]] = field(default_factory=set)
    """Runs, by id and token, that were meant to fail, and did."""
    settled: Counter[str] = field(default_factory=Counter)
    settled_at: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path) -> Audit:
        return cls.of(entries(directory))

    @classmethod
    def of(cls, found: Collection[Entry]) -> Audit:
        audit = cls()
        for what, id, token, pid, at in found:
            match what:
                case "sent":
                    audit.sent[id] = token
                case "unknown":
                    audit.unknown.add(id)
                case "run":
                    audit.runs[id].append(Run(token, pid, at))
                case "ended":
                    audit.ended[id].append(Run(token, pid, at))
                case "failed":
                    audit.failed.add((id, token))
                case "settled":
                    audit.settled[id] += 1
                    audit.settled_at.append(at)
                case _:
                    pass  # that is for somebody else
        for runs in audit.runs.values():
            runs.sort()
        return audit

    @property
    def lost(self) -> set[str]:
        """Sent, acknowledged, and never run."""
        return self.sent.keys() - self.runs.keys()

    @property
    def settled_twice(self) -> set[str]:
        """Settled, and confirmed, more than once."""
        return {id for id, times in self.settled.items() if times > 1}

    @property
    def extra_runs(self) -> int:
        """Runs beyond the first of each id."""
        return sum(len(runs) - 1 for runs in self.runs.values())

    @property
    def cut_short(self) -> list[tuple[str, Run]]:
        """Runs, each with its id, whose handler neither came to its end nor failed as meant."""
        over = self.failed | {(id, run.token) for id, runs in self.ended.items() for run in runs}
        return [
            (id, run)
            for id, runs in self.runs.items()
            for run in runs
            if (id, run.token) not in over
        ]

    def ended_again(self, killed: Collection[int]) -> tuple[int, int]:
        """How many ends came before the last one of their job: of processes killed, of others.

        What was sent twice is left out.
        """
        once = [runs for id, runs in self.ended.items() if id not in self.unknown]
        early = [run.pid in killed for runs in once for run in sorted(runs)[:-1]]
        return sum(early), len(early) - sum(early)

    @property
    def reused_tokens(self) -> set[str]:
        """Ids that were run twice with one token."""
        return {
            id for id, runs in self.runs.items() if len({run.token for run in runs}) < len(runs)
        }

    def unexplained(self, killed: Collection[int]) -> set[str]:
        """Ids that were run again although the process that ran them before was not killed."""
        return {
            id
            for id, runs in self.runs.items()
            if any(
                run.pid not in killed and (id, run.token) not in self.failed for run in runs[:-1]
            )
        }
