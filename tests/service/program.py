"""The program whose hive is run: what its handler does is up to the job."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

import bee_core as bee


class Work(bee.Job):
    do: str = "nothing"
    seconds: float = 0.0


hive = bee.Hive(
    poll=0.2,
    lease=5,
    grace=float(os.environ.get("GRACE", "20")),
    cancel_grace=float(os.environ.get("CANCEL_GRACE", "0.2")),
    concurrency=4,
)
queue = hive.queue(os.environ.get("QUEUE", "work"), Work)
hoard: list[bytearray] = []


@queue.handler
async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
    note("begins", delivery.id)
    match job.do:
        case "sleep":
            await asyncio.sleep(job.seconds)
        case "block":
            time.sleep(job.seconds)  # noqa: ASYNC251
        case "block in C":
            lock = ctypes.create_string_buffer(64)
            for _ in range(2):  # the second never returns, whatever signal comes
                ctypes.CDLL(None).pthread_mutex_lock(lock)
        case "block with the global lock":
            while not hive.stopping:
                await asyncio.sleep(0.01)
            lock = ctypes.create_string_buffer(64)
            for _ in range(2):
                ctypes.PyDLL(None).pthread_mutex_lock(lock)
        case "ignore":
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    note("ignores", delivery.id)
        case "grow":
            hoard.append(bytearray(os.urandom(1) * (64 << 20)))
        case "fail":
            raise ValueError("no")
        case "die":
            os.kill(os.getpid(), 9)
    note("ends", delivery.id)


def note(what: str, id: str) -> None:
    with Path("journal").open("a") as journal:
        journal.write(f"{os.getpid()} {what} {id}\n")
