"""One worker process, steady load, then none; what it takes up is looked at from outside."""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

import bee_core as bee
from bee_memory import MemoryBroker
from bee_pg import PgBroker
from tests.chaos import stores
from tests.chaos.workers import fork
from tests.evidence.proof import Figure
from tests.servers import PgServer, RedisServer

QUEUE = "soak"
NAMES = ("memory", *stores.NAMES)
_RATE = 300.0
"""Jobs a second."""
_STEP = 0.05
_COUNT = struct.Struct("q")
_WARM = 0.3
"""The part of the time in which it may still grow: buffers, prepared statements, arenas."""
_SHORT = 1 / 60
"""Hours in which a pool of connections may not have come to its size."""
FEW = 2
"""More open files that are no leak in so short a time: connections made when calls met."""
MOST_GROWTH = 1.0
"""Megabytes an hour."""
NOISE = 1.5
"""Megabytes by which it may seem to have grown in a run that is short."""


class Work(bee.Job):
    """A job of about 200 bytes that waits for a moment."""

    text: str


class Sample(NamedTuple):
    """What a process takes up."""

    at: float
    megabytes: float
    files: int
    threads: int


@dataclass
class Report:
    """The outcome of a run."""

    store: str
    jobs: int
    seconds: float
    samples: list[Sample]
    idle_seconds: float
    idle_cpu: float
    """Seconds of a processor."""
    idle_calls: int | None
    """What Redis has read, or transactions of PostgreSQL, also its own; if there is a server."""

    @property
    def steady(self) -> list[Sample]:
        """Those after the time in which it may still grow."""
        start, end = self.samples[0].at, self.samples[-1].at
        return [sample for sample in self.samples if sample.at >= start + _WARM * (end - start)]

    @property
    def growth(self) -> float:
        """Megabytes an hour."""
        return 3600 * slope([(sample.at, sample.megabytes) for sample in self.steady])

    @property
    def more_files(self) -> int:
        """Descriptors that it has at the end and did not have when it was warm."""
        third = max(1, len(self.steady) // 3)
        return min(s.files for s in self.steady[-third:]) - max(
            s.files for s in self.steady[:third]
        )

    @property
    def faults(self) -> list[str]:
        """What must not be. Empty after a good run."""
        steady = self.steady
        hours = (steady[-1].at - steady[0].at) / 3600
        found = []
        if self.growth * hours > max(MOST_GROWTH * hours, NOISE):
            found.append(f"the worker grows by {self.growth:.1f} MB an hour")
        if self.more_files > (FEW if hours < _SHORT else 0):
            found.append(f"the worker has {self.more_files} more files open at the end")
        if max(s.threads for s in steady) > steady[0].threads:
            found.append("the worker has more threads than in the beginning")
        return found

    def figures(self) -> dict[str, Figure]:
        """In the order in which they are shown."""
        shown: dict[str, Figure] = {
            "minutes under load": round(self.seconds / 60, 1),
            "jobs": self.jobs,
            "memory, MB": round(self.samples[-1].megabytes, 1),
            "growth, MB an hour": round(self.growth, 2),
            "open files": self.samples[-1].files,
            "more open files at the end": max(0, self.more_files),
            "threads": self.samples[-1].threads,
            "idle: % of a processor": round(100 * self.idle_cpu / self.idle_seconds, 2),
        }
        if self.idle_calls is not None:
            calls = round(self.idle_calls / self.idle_seconds, 1)
            shown["idle: calls or transactions a second"] = calls
        return shown

    def lines(self) -> list[str]:
        """The report as a small table."""
        return [f"{name:<40}{figure:>12}" for name, figure in self.figures().items()]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line that is nearest to the points."""
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0


def run(store: str, *, seconds: float, idle: float, lease: float = 30.0) -> Report:
    """Load for so many seconds, nothing for so many more.

    What a worker and a store in memory remember of leases they do for as long as a lease lasts.
    """
    with ExitStack() as stack:
        sent = mmap.mmap(-1, _COUNT.size)  # shared with whoever is forked
        server = None if store == "memory" else stores.durable(store)
        if server is not None:
            stack.callback(server.stop)
        if server is None:
            worker = sender = fork(lambda: _both(lease, sent))
        else:
            url = server.url
            worker, sender = fork(lambda: _work(url, lease)), fork(lambda: _send(url, sent))
        for pid in {worker, sender}:
            stack.callback(_end, pid)
        process, samples = psutil.Process(worker), []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(1.0, seconds / 50))
            samples.append(_sample(process))
        os.kill(sender, signal.SIGUSR1)  # no more jobs
        time.sleep(1.0)
        before, calls, began = _cpu(process), _calls(server), time.monotonic()
        time.sleep(idle)
        rested = time.monotonic() - began
        after = _calls(server)
        asked = None if calls is None or after is None else after - calls - 1  # ours
        (jobs,) = _COUNT.unpack(sent[:])
        return Report(store, jobs, seconds, samples, rested, _cpu(process) - before, asked)


def _sample(process: psutil.Process) -> Sample:
    with process.oneshot():
        megabytes = process.memory_info().rss / 1e6
        return Sample(time.monotonic(), megabytes, process.num_fds(), process.num_threads())


def _cpu(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _calls(server: stores.Killable | None) -> int | None:
    if isinstance(server, RedisServer):
        return int(server.ask("INFO", "stats")["total_reads_processed"])
    if isinstance(server, PgServer):
        [(calls,)] = server.ask("select sum(xact_commit)::bigint from pg_stat_database")
        return int(calls)
    return None


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # worker and sender may be one
        os.waitpid(pid, 0)


async def _work(url: str, lease: float) -> None:
    async with bee.connect(url) as broker:
        await _worker(broker, lease).run()


def _worker(broker: bee.Store, lease: float) -> bee.Worker[Work]:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await asyncio.sleep(0.005)

    return bee.Worker(broker, QUEUE, Work, handle, lease=lease)


async def _send(url: str, sent: mmap.mmap) -> None:
    async with bee.connect(url) as broker:
        await _send_on(broker, sent)


async def _send_on(broker: bee.Store, sent: mmap.mmap) -> None:
    """Send until SIGUSR1, and keep count."""
    count, batch = 0, round(_RATE * _STEP)
    enough = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, enough.set)
    queue = bee.Queue(broker, QUEUE, Work)
    while not enough.is_set():
        await queue.send_many(Work("x" * 150) for _ in range(batch))
        count += batch
        sent[:] = _COUNT.pack(count)
        await asyncio.sleep(_STEP)
    await asyncio.Event().wait()


async def _both(lease: float, sent: mmap.mmap) -> None:
    async with MemoryBroker() as broker:
        await asyncio.gather(_worker(broker, lease).run(), _send_on(broker, sent))


WARM = (PgBroker,)
"""Imported before the fork, so that it is not what grows."""
