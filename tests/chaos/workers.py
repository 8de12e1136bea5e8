"""Worker processes to be killed: forked from a warm parent, so that a kill a moment is possible."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import bee_core as bee
from bee_core.events import AttemptSettled, Event
from tests.chaos.ledger import Ledger

QUEUE = "chaos"
LEASE = 2.0


class Work(bee.Job):
    """Takes `milliseconds`."""

    number: int
    milliseconds: float = 0.0


def fork_worker(url: str, directory: Path, *, concurrency: int = 20) -> int:
    """Start a worker process; return its pid. SIGTERM stops it gracefully."""
    return fork(lambda: _work(url, directory, concurrency))


def fork(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Start a process that does this and ends; return its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        random.seed(os.getpid())
        asyncio.run(work())
        code = 0
    finally:
        os._exit(code)


async def _work(url: str, directory: Path, concurrency: int) -> None:
    ledger = Ledger(directory)

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        ledger.write("run", delivery.id, delivery.token)
        if job.milliseconds:
            await asyncio.sleep(job.milliseconds / 1000)

    def observe(event: Event) -> None:
        if isinstance(event, AttemptSettled) and isinstance(event.disposition, bee.Delete):
            ledger.write("settled", event.id, event.token)

    policy = bee.Policy(on_stall=bee.Repeat(None))
    async with bee.connect(url) as broker:
        worker = bee.Worker(
            broker,
            QUEUE,
            Work,
            handle,
            policy=policy,
            concurrency=concurrency,
            lease=LEASE,
            poll=0.2,
            observers=(observe,),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


def stop_all(pids: set[int]) -> None:
    """Stop worker processes gracefully, and wait for them."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)
