"""A large group on workers that are killed at random: its callback runs once, with every result.

python -m tests.chaos.groups --store pg --children 10000 --processes 4 --kills 40
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
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import bee_core as bee
from bee_core.events import AttemptSettled, Event
from tests.chaos import stores
from tests.chaos.ledger import Ledger
from tests.chaos.verdict import tell
from tests.chaos.workers import fork, stop_all

QUEUE = "groups"
LEASE = 2.0
EVERY_FAILURE = 97
"""Each child whose number this divides fails for good."""


class Square(bee.Job):
    """One child."""

    number: int


class Gather(bee.Job):
    """The callback."""

    children: int


Jobs = Square | Gather


@dataclass
class Report:
    """The outcome of a run."""

    children: int
    killed: int
    runs: int
    """Of the callback: more than one only if a process was killed while it ran it."""
    settled: int
    """How often the end of the callback was confirmed."""
    wrong: int
    """Runs of the callback that did not find every result, right and once."""
    left: int
    seconds: float

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        found = []
        if self.settled != 1:
            found.append(f"the callback was settled {self.settled} times")
        if not 1 <= self.runs <= 1 + self.killed:
            found.append(f"the callback ran {self.runs} times")
        if self.wrong:
            found.append(f"{self.wrong} runs of the callback found other results than there were")
        if self.left:
            found.append(f"{self.left} jobs are left")
        return found

    def lines(self) -> list[str]:
        """The report as a small table."""
        return [
            f"children         {self.children}",
            f"kill -9          {self.killed}",
            f"callback ran     {self.runs}",
            f"and was settled  {self.settled}",
            f"wrong results    {self.wrong}",
            f"seconds          {self.seconds:.1f}",
        ]


def make_hive(broker: bee.Store, ledger: Ledger) -> bee.Hive:
    """What each worker process runs."""
    hive = bee.Hive(broker=broker, lease=LEASE, poll=0.2, concurrency=20, observers=())
    policy = bee.Policy(on_stall=bee.Repeat(None), on_error=bee.Archive())
    queue = hive.queue(QUEUE, Jobs, policy=policy)

    @queue.on(Square)
    async def square(job: Square) -> int:
        await asyncio.sleep(random.uniform(0, 0.01))
        if job.number % EVERY_FAILURE == 0:
            raise bee.PermanentError(f"{job.number} is not to my taste")
        return job.number**2

    @queue.on(Gather)
    async def gather(job: Gather, delivery: bee.Delivery[Jobs]) -> None:
        results = await delivery.results()
        expected = {n: None if n % EVERY_FAILURE == 0 else n**2 for n in range(job.children)}
        found = dict(enumerate(one.value if one.ok else None for one in results))
        ids = {one.id for one in results}
        right = found == expected and len(ids) == len(results) == job.children
        ledger.write("right" if right else "wrong", delivery.id, delivery.token)

    return hive


async def _work(url: str, directory: Path) -> None:
    ledger = Ledger(directory)

    def observe(event: Event) -> None:
        if isinstance(event, AttemptSettled) and event.tag == "gather":
            ledger.write("settled", event.id, event.token)

    async with bee.connect(url) as broker:
        hive = make_hive(broker, ledger)
        with hive.substitute(broker, observers=(observe,)):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, hive.stop)
            await hive.run()


async def _send(url: str, children: int) -> bee.Group:
    async with bee.connect(url) as broker:
        await broker.drop(QUEUE)
        queue: bee.Queue[Jobs] = bee.Queue(broker, QUEUE, Jobs)
        jobs = [Square(number) for number in range(children)]
        group = await queue.group(jobs, then=Gather(children), id="all")
        await queue.group(jobs, then=Gather(children), id="all")  # a sender that tries again
        return group


async def _until_empty(url: str, patience: float) -> int:
    deadline = time.monotonic() + patience
    async with bee.connect(url) as broker:
        while (stats := await broker.stats(QUEUE)).live and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        return stats.live


def run(url: str, *, children: int, kills: int, processes: int, seed: int = 0) -> Report:
    """Send a group, kill workers as they run it, let the last ones finish, read the ledgers."""
    chance = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="bee-groups-"))
    started = time.monotonic()
    asyncio.run(_send(url, children))
    alive = {fork(lambda: _work(url, directory)) for _ in range(processes)}
    try:
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, 0.3))
            victim = chance.choice(sorted(alive))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            alive.remove(victim)
            alive.add(fork(lambda: _work(url, directory)))
        left = asyncio.run(_until_empty(url, patience=120))
    finally:
        stop_all(alive)
    words = Counter(
        line.split()[0]
        for path in directory.glob("*.ledger")
        for line in path.read_text().splitlines()
    )
    shutil.rmtree(directory)
    return Report(
        children=children,
        killed=kills,
        runs=words["right"] + words["wrong"],
        settled=words["settled"],
        wrong=words["wrong"],
        left=left,
        seconds=time.monotonic() - started,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", choices=stores.NAMES, default="valkey")
    parser.add_argument("--children", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    server = stores.durable(options.store)
    try:
        report = run(
            server.url,
            children=options.children,
            kills=options.kills,
            processes=options.processes,
            seed=options.seed,
        )
    finally:
        server.stop()
    return tell(report)


if __name__ == "__main__":
    sys.exit(main())
