"""kill -9 and restart of the server under load, and the audit that nothing acknowledged was lost.

    python -m tests.chaos.restarts --store pg --restarts 20 [--cut]

Workers and producer run on through all of it; nobody restarts them. The server is one that keeps
what it has acknowledged: a Valkey with an append-only file, or PostgreSQL as it comes. With --cut
it lives on, and only every connection is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import bee_core as bee
from tests.chaos import stores
from tests.chaos.kills import until_empty
from tests.chaos.ledger import Audit, Ledger
from tests.chaos.verdict import tell
from tests.chaos.workers import LEASE, QUEUE, Work, fork, fork_worker, stop_all


@dataclass
class Report:
    """The outcome of a run."""

    audit: Audit
    restarts: int
    recovered: list[float]
    """Seconds from the return of the server to the next job settled, each time."""
    at_full_rate: list[float]
    """Seconds from there to half a second as good as most were; if it was left alone for long."""
    live: int

    @property
    def faults(self) -> list[str]:
        found = []
        if self.audit.lost:
            found.append(f"{len(self.audit.lost)} acknowledged jobs were lost")
        if self.live:
            found.append(f"{self.live} jobs are left")
        if self.audit.settled_twice:
            found.append(f"{len(self.audit.settled_twice)} jobs were settled twice")
        if self.recovered and max(self.recovered) > 5:
            found.append(f"workers took {max(self.recovered):.1f} s to come back")
        if self.at_full_rate and max(self.at_full_rate) > 5:
            found.append(f"the full rate was back after {max(self.at_full_rate):.1f} s")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        slowest = max(self.recovered, default=0.0)
        return [
            f"jobs acknowledged  {len(self.audit.sent)}",
            f"kills or cuts      {self.restarts}",
            f"lost               {len(self.audit.lost)}",
            f"settled twice      {len(self.audit.settled_twice)}",
            f"run again          {self.audit.extra_runs}",
            f"back at work after {slowest:.2f} s at the slowest",
            *(f"at full rate after {seconds:.1f} s" for seconds in self.at_full_rate),
        ]


def run(
    store: str,
    *,
    restarts: int,
    cut: bool = False,
    calm: float = 0.0,
    processes: int = 2,
    seed: int = 0,
) -> Report:
    """Keep sending and working while the server is killed and started again and again."""
    chance = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="bee-chaos-"))
    server = stores.durable(store)
    alive = {fork_worker(server.url, directory) for _ in range(processes)}
    producer = fork(lambda: produce(server.url, directory))
    returned = []
    try:
        time.sleep(1.0)
        for _ in range(restarts):
            time.sleep(calm or chance.uniform(0.5, 2.5))
            if cut:
                stores.cut_all(server)
            else:
                server.kill()
                time.sleep(chance.uniform(0.0, 0.5))
                server.start()
            returned.append(time.time())
        time.sleep(calm or 1.0)
        os.kill(producer, signal.SIGTERM)
        os.waitpid(producer, 0)
        live, _ = asyncio.run(until_empty(server.url, patience=60 + 10 * LEASE))
    finally:
        stop_all(alive)
        server.stop()
    audit = Audit.read(directory)
    shutil.rmtree(directory)
    settled = sorted(audit.settled_at)
    gaps = [next((at - back for at in settled if at > back), 99.0) for back in returned]
    full = [_at_full_rate(settled, back) for back in returned] if calm else []
    return Report(audit, restarts, gaps, full, live)


def _at_full_rate(settled: list[float], back: float) -> float:
    """Seconds from `back` to the first half second in which as much was settled as usual."""
    start, end = settled[0], settled[-1]
    counts = Counter(int(2 * (at - start)) for at in settled)
    usual = statistics.median(counts[n] for n in range(int(2 * (end - start))))
    first = bisect_left(settled, back)
    for tenth in range(200):
        begin = back + tenth / 10
        until = bisect_left(settled, begin + 0.5, lo=first)
        if until - bisect_left(settled, begin, lo=first) >= 0.8 * usual:
            return tenth / 10
    return 99.0


async def produce(url: str, directory: Path) -> None:
    """Send until told to stop; write down what was acknowledged, and nothing else."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    ledger, number = Ledger(directory), 0
    async with bee.connect(url) as broker:
        queue = bee.Queue(broker, QUEUE, Work)
        while not stopping.is_set():
            try:
                tickets = await queue.send_many(Work(number + n, 1.0) for n in range(10))
            except bee.BrokerError:
                await asyncio.sleep(0.02)
                continue
            for ticket in tickets:
                ledger.write("sent", ticket.id)
            number += 10
            await asyncio.sleep(0.002)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--cut", action="store_true", help="end connections, not the server")
    parser.add_argument("--calm", type=float, default=0.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = run(
        options.store,
        restarts=options.restarts,
        cut=options.cut,
        calm=options.calm,
        seed=options.seed,
    )
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
