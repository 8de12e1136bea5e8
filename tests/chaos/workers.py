"""Worker processes to be killed: forked from a warm parent, so that a kill a moment is possible."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import bee_core as bee
from bee_core.events import AttemptLost, AttemptSettled, Event
from bee_core.testing.recording import RecordedBroker, Recorder
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.chaos.ledger import Ledger

_LIBC = ctypes.CDLL(None)
WARM = (PgBroker, RedisBroker)
"""Imported before the fork: it is most of what it takes to start a worker."""
QUEUE = "chaos"
LEASE = 2.0


class Work(bee.Job):
    """Takes `milliseconds`."""

    number: int
    milliseconds: float = 0.0


class Kept(bee.Job, policy=bee.Policy(on_success=bee.Archive())):
    """Is archived in the end."""

    milliseconds: float = 0.0


class Bad(bee.Job, policy=bee.Policy(on_error=bee.Archive())):
    """Fails, and is archived for it."""

    milliseconds: float = 0.0


class Moody(
    bee.Job, policy=bee.Policy(on_error=bee.Repeat(None), backoff=bee.Backoff(min=0.05, max=0.2))
):
    """Fails at first."""

    milliseconds: float = 0.0


Jobs = Work | Kept | Bad | Moody


@asynccontextmanager
async def connect(url: str, directory: Path, *, history: bool) -> AsyncIterator[bee.Store]:
    """A broker; one that writes its history, if that is wanted."""
    async with bee.connect(url) as broker:
        if history:
            yield RecordedBroker(broker, Recorder(directory, str(os.getpid())))
        else:
            yield broker


def some_job(chance: random.Random, number: int, longest: float) -> Jobs:
    """Most are plain work."""
    kind: type[Kept | Bad | Moody] | None = chance.choices(
        [None, Kept, Bad, Moody], weights=[85, 5, 5, 5]
    )[0]
    milliseconds = chance.uniform(0, longest)
    return Work(number, milliseconds) if kind is None else kind(milliseconds)


def make_worker(
    broker: bee.Store, ledger: Ledger, *, concurrency: int = 20, lease: float = LEASE
) -> bee.Worker[Jobs]:
    """A worker that writes down what it does."""

    async def handle(job: Jobs, delivery: bee.Delivery[Jobs]) -> None:
        ledger.write("run", delivery.id, delivery.token)
        if job.milliseconds:
            await asyncio.sleep(job.milliseconds / 1000)
        if isinstance(job, Moody) and not delivery.counters.errors:
            ledger.write("failed", delivery.id, delivery.token)
            raise ValueError("not now")
        ledger.write("ended", delivery.id, delivery.token)
        if isinstance(job, Bad):
            raise ValueError("never")

    def observe(event: Event) -> None:
        match event:
            case AttemptSettled(disposition=bee.Delete() | bee.Archive()):
                ledger.write("settled", event.id, event.token)
            case AttemptLost():
                ledger.write("lost", event.id, event.token)
            case _:
                pass

    return bee.Worker(
        broker,
        QUEUE,
        Jobs,
        handle,
        policy=bee.Policy(on_stall=bee.Repeat(None)),
        concurrency=concurrency,
        lease=lease,
        poll=0.2,
        observers=(observe,),
    )


def fork_worker(
    url: str,
    directory: Path,
    *,
    concurrency: int = 20,
    lease: float = LEASE,
    history: bool = False,
) -> int:
    """Start a worker process; return its pid. SIGTERM stops it gracefully."""
    return fork(lambda: work(url, directory, concurrency=concurrency, lease=lease, history=history))


def fork(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Start a process that does this and ends; return its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with_parent()
        random.seed(os.getpid())
        asyncio.run(work())
        code = 0
    finally:
        os._exit(code)


def die_with_parent() -> None:
    """Be killed when the parent ends, however it ends. Only Linux can do that."""
    if sys.platform == "linux":
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


async def work(
    url: str, directory: Path, *, concurrency: int, lease: float, history: bool = False
) -> None:
    """Be a worker until SIGTERM."""
    async with connect(url, directory, history=history) as broker:
        worker = make_worker(broker, Ledger(directory), concurrency=concurrency, lease=lease)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


def start_worker(
    environment: Mapping[str, str], url: str, directory: Path, *, concurrency: int, lease: float
) -> int:
    """The same as a new program, in an environment of its own: not so fast."""
    words = [url, str(directory), str(concurrency), str(lease)]
    command = [sys.executable, "-m", "tests.chaos.workers", *words]
    process = subprocess.Popen(command, env={**os.environ, **environment})
    process.returncode = 0  # who forks waits by pid; this object is not to
    return process.pid


def stop_all(pids: set[int]) -> None:
    """Stop worker processes gracefully, and wait for them."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    die_with_parent()
    url, directory, concurrency, lease = sys.argv[1:]
    asyncio.run(work(url, Path(directory), concurrency=int(concurrency), lease=float(lease)))
