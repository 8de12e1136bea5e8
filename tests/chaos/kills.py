"""kill -9 of worker processes at random, and the audit that nothing was lost.

    python -m tests.chaos.kills --store pg --kills 200 --jobs 20000 --processes 4

It starts a server of its own, unless one is named by --url.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import bee_core as bee
from tests.chaos import stores
from tests.chaos.ledger import Audit, Ledger
from tests.chaos.verdict import tell
from tests.chaos.workers import LEASE, QUEUE, Work, fork_worker, stop_all


@dataclass
class Report:
    """The outcome of a run."""

    audit: Audit
    killed: set[int]
    live: int
    archived: int
    seconds: float

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        found = []
        if self.audit.lost:
            found.append(f"{len(self.audit.lost)} jobs were lost")
        if self.live or self.archived:
            found.append(f"{self.live} jobs are left, {self.archived} are archived")
        if self.audit.settled_twice:
            found.append(f"{len(self.audit.settled_twice)} jobs were settled twice")
        if self.audit.reused_tokens:
            found.append(f"{len(self.audit.reused_tokens)} jobs ran twice with one token")
        if unexplained := self.audit.unexplained(self.killed):
            found.append(f"{len(unexplained)} jobs ran again although nobody was killed")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        sent, kills, again = len(self.audit.sent), len(self.killed), self.audit.extra_runs
        return [
            f"jobs sent        {sent}",
            f"kill -9          {kills}",
            f"lost             {len(self.audit.lost)}",
            f"settled twice    {len(self.audit.settled_twice)}",
            f"run again        {again} ({again / max(kills, 1):.2f} per kill)",
            f"seconds          {self.seconds:.1f}",
        ]


def run(url: str, *, jobs: int, kills: int, processes: int, seed: int = 0) -> Report:
    """Send jobs, kill workers as they run them, let the last ones finish, read the ledgers."""
    chance = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
    started = time.monotonic()
    asyncio.run(_send(url, directory, jobs, chance))
    alive = {fork_worker(url, directory) for _ in range(processes)}
    killed: set[int] = set()
    try:
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, 0.12))
            victim = chance.choice(sorted(alive))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            alive.remove(victim)
            killed.add(victim)
            alive.add(fork_worker(url, directory))
        live, archived = asyncio.run(until_empty(url, patience=60 + 10 * LEASE))
    finally:
        stop_all(alive)
    report = Report(Audit.read(directory), killed, live, archived, time.monotonic() - started)
    shutil.rmtree(directory)
    return report


async def _send(url: str, directory: Path, jobs: int, chance: random.Random) -> None:
    ledger = Ledger(directory)
    async with bee.connect(url) as broker:
        await broker.drop(QUEUE)
        queue = bee.Queue(broker, QUEUE, Work)
        for start in range(0, jobs, 500):
            works = [Work(n, chance.uniform(0, 30)) for n in range(start, min(start + 500, jobs))]
            for ticket in await queue.send_many(works):
                ledger.write("sent", ticket.id)


async def until_empty(url: str, patience: float) -> tuple[int, int]:
    """Wait until nothing is live any more, or patience ends; what is left then."""
    deadline = time.monotonic() + patience
    async with bee.connect(url) as broker:
        while True:
            stats = await broker.stats(QUEUE)
            if stats.live == 0 or time.monotonic() > deadline:
                return stats.live, sum(stats.archived.values())
            await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url")
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    server = None if options.url else stores.durable(options.store)
    url = options.url or (server.url if server else "")
    try:
        report = run(
            url,
            jobs=options.jobs,
            kills=options.kills,
            processes=options.processes,
            seed=options.seed,
        )
    finally:
        if server is not None:
            server.stop()
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
