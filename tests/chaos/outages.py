"""A server that is away for a minute in the middle of load: all workers go on when it is back.

    python -m tests.chaos.outages --store pg --workers 20 --seconds 60

Nobody restarts the workers. Meanwhile their memory is looked at: it must not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import stores
from tests.chaos.ledger import Audit, entries
from tests.chaos.sending import Load, send, until_empty
from tests.chaos.verdict import tell
from tests.chaos.workers import LEASE, fork, fork_worker, stop_all

_MOST_GROWTH = 2.0
"""Megabytes that a process may have more at the end of the outage than soon after it began."""

_LOAD = Load(jobs=0, rate=500, longest=2.0)


@dataclass
class Report:
    """The outcome of a run."""

    audit: Audit
    seconds: float
    back_after: dict[int, float]
    """By worker: seconds from the return of the server to the next job it settled."""
    growth: dict[int, float]
    """By worker: how many megabytes it grew while the server was away."""
    live: int

    @property
    def faults(self) -> list[str]:
        found = []
        if self.audit.lost:
            found.append(f"{len(self.audit.lost)} acknowledged jobs were lost")
        if self.live:
            found.append(f"{self.live} jobs are left")
        if twice := self.audit.settled_twice - self.audit.unknown:
            found.append(f"{len(twice)} jobs were settled twice")
        if late := {pid: after for pid, after in self.back_after.items() if after > 5}:
            found.append(f"{len(late)} workers took more than 5 s to come back: {late}")
        if grown := {pid: mb for pid, mb in self.growth.items() if mb > _MOST_GROWTH}:
            found.append(f"{len(grown)} workers grew: {grown}")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        return [
            f"jobs acknowledged  {len(self.audit.sent)}",
            f"away for           {self.seconds:.0f} s",
            f"lost               {len(self.audit.lost)}",
            f"settled twice      {len(self.audit.settled_twice)}",
            f"workers            {len(self.back_after)}",
            f"back at work after {max(self.back_after.values()):.2f} s at the slowest",
            f"grown by           {max(self.growth.values()):.2f} MB at the most",
        ]


def run(store: str, *, workers: int, seconds: float) -> Report:
    """Load, an outage, load again."""
    directory = Path(tempfile.mkdtemp(prefix="bee-outage-"))
    server = stores.durable(store)
    url = stores.sparing(server)
    alive = {fork_worker(url, directory) for _ in range(workers)}
    producer = fork(lambda: send(url, directory, _LOAD))
    try:
        time.sleep(5.0)
        server.kill()
        time.sleep(min(5.0, seconds / 4))
        before = {pid: _megabytes(pid) for pid in alive}
        time.sleep(seconds - min(5.0, seconds / 4))
        growth = {pid: _megabytes(pid) - before[pid] for pid in alive}
        server.start()
        back = time.monotonic()
        time.sleep(10.0)
        os.kill(producer, signal.SIGTERM)
        os.waitpid(producer, 0)
        live = asyncio.run(until_empty(server.url, patience=60 + 10 * LEASE))
    finally:
        stop_all(alive)
        server.stop()
    found = entries(directory)
    audit = Audit.read(directory)
    shutil.rmtree(directory)
    after = {
        pid: next(
            (e.at - back for e in found if e.pid == pid and e.what == "settled" and e.at > back),
            99.0,
        )
        for pid in alive
    }
    return Report(audit, seconds, after, growth, live)


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    report = run(options.store, workers=options.workers, seconds=options.seconds)
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
