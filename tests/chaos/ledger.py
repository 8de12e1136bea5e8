"""A record of what really ran, kept outside the broker under test, and the audit of it.

Each process appends lines to a file of its own with plain writes, so a line is there or it is not,
also if the process is killed in the next instant.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
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
        line = f"{what} {id} {token} {self._pid} {time.time():.6f}\n"
        os.write(self._file, line.encode())


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


@dataclass
class Audit:
    """What the ledgers of a run say."""

    sent: set[str] = field(default_factory=set)
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """Per id: token and process of each run."""
    settled: Counter[str] = field(default_factory=Counter)
    settled_at: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, directory: Path) -> Audit:
        audit = cls()
        for what, id, token, pid, at in entries(directory):
            if what == "sent":
                audit.sent.add(id)
            elif what == "run":
                audit.runs[id].append((token, pid))
            elif what == "settled":
                audit.settled[id] += 1
                audit.settled_at.append(at)
        for runs in audit.runs.values():
            runs.sort()
        return audit

    @property
    def lost(self) -> set[str]:
        """Sent, acknowledged, and never run."""
        return self.sent - self.runs.keys()

    @property
    def settled_twice(self) -> set[str]:
        """Settled, and confirmed, more than once."""
        return {id for id, times in self.settled.items() if times > 1}

    @property
    def extra_runs(self) -> int:
        """Runs beyond the first of each id."""
        return sum(len(runs) - 1 for runs in self.runs.values())

    @property
    def reused_tokens(self) -> set[str]:
        """Ids that were run twice with one token."""
        return {
            id for id, runs in self.runs.items() if len({token for token, _ in runs}) < len(runs)
        }

    def unexplained(self, killed: set[int]) -> set[str]:
        """Ids that were run again although the process that ran them before was not killed."""
        return {
            id for id, runs in self.runs.items() if any(pid not in killed for _, pid in runs[:-1])
        }
