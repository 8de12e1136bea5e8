"""What the smaller benchmarks share: a job that does nothing, and a way to send many."""

from __future__ import annotations

import bee_core as bee

BATCH = 100
QUEUE = "bench"


class Noop(bee.Job):
    """About 200 bytes on the wire."""

    number: int
    text: str = "x" * 150


async def handle(job: Noop) -> None:
    """Do nothing, asynchronously."""


async def bee_send(broker: bee.Store, jobs: int) -> None:
    """Send so many, a batch at a time."""
    queue = bee.Queue(broker, QUEUE, Noop)
    for start in range(0, jobs, BATCH):
        await queue.send_many([Noop(number) for number in range(start, start + BATCH)])
