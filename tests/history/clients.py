"""Processes that work on one queue, badly: they forget what they hold, are late, and are killed.

python -m tests.history.clients URL DIRECTORY NAME SEED SECONDS
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import bee_core as bee
from bee_core.broker import Store
from bee_core.message import Counters, Draft, Receipt, Settlement
from bee_core.stored import State
from bee_core.testing.recording import RecordedBroker, Recorder

QUEUE = "history"
LEASE = 0.4
ROOT = Path(__file__).parents[2]


class Client:
    """One process: it sends, leases, extends and settles at random, until it is killed or done."""

    def __init__(self, broker: Store, name: str, chance: random.Random) -> None:
        self._broker, self._name, self._chance = broker, name, chance
        self._sent = 0
        self._held: list[Receipt] = []

    async def work(self, seconds: float) -> None:
        """Do so for a while; half of the clients are killed before."""
        end = time.monotonic() + seconds
        dies = self._chance.random() < 0.7
        while time.monotonic() < end:
            await self._chance.choice([self._send, self._lease, self._lease, self._end])()
            if dies and self._chance.random() < 0.01:
                self._die_soon()
            await asyncio.sleep(self._chance.choice([0.0, 0.0, 0.001, LEASE / 20]))

    def _die_soon(self) -> None:
        """kill -9 in the middle of what comes next."""
        loop = asyncio.get_running_loop()
        wait = self._chance.random() * 0.002
        loop.call_later(wait, os.kill, os.getpid(), signal.SIGKILL)

    async def _send(self) -> None:
        ids = [f"{self._name}-{self._sent + n}" for n in range(self._chance.randint(1, 3))]
        self._sent += len(ids)
        await self._broker.send(QUEUE, [Draft(id, b"x") for id in ids])

    async def _lease(self) -> None:
        limit = self._chance.randint(1, 10)
        leases = await self._broker.lease(QUEUE, limit=limit, duration=LEASE, holder=self._name)
        self._held += [lease.receipt for lease in leases]

    async def _end(self) -> None:
        """Extend, settle, settle twice or forget what is held, whether it still is or not."""
        self._chance.shuffle(self._held)
        some, self._held = self._held[:4], self._held[4:]
        match self._chance.choice(["extend", "settle", "settle", "settle", "twice", "forget"]):
            case "extend":
                await self._broker.extend(QUEUE, some, duration=LEASE)
                self._held += some
            case "settle":
                await self._broker.settle(QUEUE, [self._settlement(one) for one in some])
            case "twice":
                for _ in range(2):
                    await self._broker.settle(QUEUE, [self._settlement(one) for one in some])
            case _:
                pass

    def _settlement(self, receipt: Receipt) -> Settlement:
        again, failed = bee.Reschedule(0.05), Counters(errors=1)
        ways = [
            Settlement(receipt, bee.Delete()),
            Settlement(receipt, bee.Delete()),
            Settlement(receipt, bee.Archive()),
            Settlement(receipt, again, counters=failed),
            Settlement(receipt, bee.Reschedule(front=True)),
        ]
        return self._chance.choice(ways)


def start(
    url: str, directory: Path, name: str, seed: int, seconds: float
) -> subprocess.Popen[bytes]:
    """A client in a process of its own."""
    arguments = [url, str(directory), name, str(seed), str(seconds)]
    command = [sys.executable, "-m", "tests.history.clients", *arguments]
    return subprocess.Popen(command, cwd=ROOT)


async def left(broker: Store) -> dict[str, list[str]]:
    """Where everything is that the store still has, as soon as every lease and delay is over."""
    while (stats := await broker.stats(QUEUE)).leased or stats.delayed:
        await asyncio.sleep(LEASE / 10)
    found: dict[str, list[str]] = {}
    for state in State:
        after: str | None = None
        while True:
            page = await broker.scan(QUEUE, state, after=after, limit=1000)
            for item in page.items:
                found.setdefault(item.id, []).append(state.value)
            after = page.after
            if after is None:
                break
    return found


async def _main(url: str, directory: str, name: str, seed: str, seconds: str) -> None:
    recorder = Recorder(Path(directory), name)
    async with bee.connect(url) as broker:
        client = Client(RecordedBroker(broker, recorder), name, random.Random(int(seed)))
        await client.work(float(seconds))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
