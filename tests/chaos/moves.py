"""Queues moved from one store to another by a `bee move` that is killed again and again.

    python -m tests.chaos.moves --jobs 100000 --from valkey --to pg --interrupts 3

Everything has to arrive as it was, once and in its order, and to work there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import msgspec

import bee_core as bee
from bee_core.broker import Store
from bee_core.message import Lease, Note, Settlement, Throttle
from bee_core.moving.events import Moved
from bee_core.stored import State
from tests.chaos import stores
from tests.chaos.verdict import tell
from tests.core.moving import AWAITED, Filled, Seen, differences, fill, in_order, look

QUEUE = "moved"
TOGETHER = Throttle(per_key=None)
HOUR = 3600.0


@dataclass
class Report:
    """The outcome of a run."""

    jobs: int
    kills: int = 0
    seconds: float = 0.0
    """For the moves alone, each from its start to its end."""
    already: int = 0
    """Jobs that the last run found at the destination."""
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report as a small table."""
        return [
            f"jobs           {self.jobs}",
            f"kill -9        {self.kills}",
            f"already there  {self.already}",
            f"seconds        {self.seconds:.1f}",
        ]


def run(
    source: str, destination: str, *, jobs: int, interrupts: int, batch: int = 500, seed: int = 0
) -> Report:
    """Fill a queue, move it with interruptions, and look at what has arrived."""
    chance = random.Random(seed)
    filled, before = asyncio.run(_fill(source, jobs))
    report = Report(sum(before.counts.values()))
    command = [sys.executable, "-m", "bee_core.cli", "move", source, destination]
    command += ["--json", "--wait", "0", "--batch", str(batch)]
    pages = report.jobs // batch
    while report.kills < interrupts and _is_killed(command, report, chance.randint(1, pages // 6)):
        report.kills += 1
        time.sleep(chance.uniform(0.0, 0.2))
    began = time.monotonic()
    last = subprocess.run(command, capture_output=True, text=True)
    report.seconds += time.monotonic() - began
    if last.returncode != 0:
        report.faults.append(f"it ended with {last.returncode}: {last.stderr}{last.stdout[-500:]}")
        return report
    moved = msgspec.json.decode(last.stdout.splitlines()[-2], type=Moved)
    report.already = moved.already
    report.faults += asyncio.run(_look_at(source, destination, filled, before))
    return report


def _is_killed(command: list[str], report: Report, progress: int) -> bool:
    """Start a move, and kill it a moment after so much progress; or it has ended before."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as told:
        for line in told:
            progress -= '"progress"' in line
            if progress <= 0:
                time.sleep(random.uniform(0.0, 0.2))  # a batch takes about as long
                break
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    report.seconds += time.monotonic() - began
    return process.returncode == -signal.SIGKILL


async def _fill(url: str, jobs: int) -> tuple[Filled, Seen]:
    async with bee.connect(url) as store:
        filled = await fill(store, QUEUE, jobs, asyncio.sleep)
        return filled, await look(store, QUEUE)


async def _look_at(source: str, destination: str, filled: Filled, before: Seen) -> list[str]:
    async with bee.connect(source) as old, bee.connect(destination) as new:
        stats = await old.stats(QUEUE)
        faults = [f"left at the source: {stats}"] if stats.live or stats.archived else []
        faults += differences(before, await look(new, QUEUE), filled)
        return faults + await _work_off(new, filled, before)


async def _work_off(store: Store, filled: Filled, before: Seen) -> list[str]:
    """Everything that is ready is delivered in its order; then the groups are complete."""
    leases = await _lease_all(store)
    stalled = set(filled.stalled)
    expected = [one.id for one in in_order(before.ready) if one.id not in stalled]
    delivered = [lease.receipt.id for lease in leases if lease.receipt.id not in stalled]
    faults = [] if expected == delivered else ["delivered in another order"]
    if any(lease.receipt.token <= before.token for lease in leases):
        faults.append("a token is not greater than those that the source has given")
    ends = [Settlement(one.receipt, bee.Delete(), Note("succeeded"), result=b"1") for one in leases]
    for n in range(0, len(ends), 500):
        await store.settle(QUEUE, ends[n : n + 500])
    woken = {lease.receipt.id for lease in await _lease_all(store)}
    if woken != set(filled.groups):
        faults.append(f"{len(woken)} of {len(filled.groups)} groups are complete")
    for id in filled.groups:
        heard = await store.reports(QUEUE, id)
        if [b"[0]", b"1", b"1"] != [one.result for one in heard] or len(heard) != AWAITED:
            faults.append(f"{id} has heard {heard}")
    counts = await store.stats(QUEUE)
    if counts.delayed != len(before.delayed) - len(filled.groups):
        faults.append(f"{counts.delayed} are delayed, of {len(before.delayed)}")
    page = await store.scan(QUEUE, State.READY)
    return faults[:10] + [f"{one.id} is left" for one in page.items[:3]]


async def _lease_all(store: Store) -> list[Lease]:
    found: list[Lease] = []
    while leases := await store.lease(
        QUEUE, limit=500, duration=HOUR, holder="new:1", throttle=TOGETHER
    ):
        found += leases
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="source", choices=stores.NAMES, default="valkey")
    parser.add_argument("--to", dest="destination", choices=stores.NAMES, default="pg")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--interrupts", type=int, default=3)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    servers = [stores.durable(options.source), stores.durable(options.destination)]
    try:
        report = run(
            *(server.url for server in servers),
            jobs=options.jobs,
            interrupts=options.interrupts,
            batch=options.batch,
            seed=options.seed,
        )
    finally:
        for server in servers:
            server.stop()
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
