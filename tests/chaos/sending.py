"""Jobs at a steady rate, whatever happens; what was accepted is written down, and nothing else."""

from __future__ import annotations

import asyncio
import math
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import bee_core as bee
from tests.chaos.ledger import Ledger
from tests.chaos.workers import QUEUE, Bad, Jobs, Kept, connect, some_job

_STEP = 0.05
_BATCH = 500
_AGAIN = 0.02
CALLED = 60
"""Jobs for each worker, when the last question is whether all of them work."""
MOST_WAITING = 3_000
"""While more than this is waiting, nothing more is sent: a backlog would hide who is slow."""


class Load(NamedTuple):
    """How much is to be sent."""

    jobs: int
    """At least."""
    rate: float
    """Jobs a second."""
    longest: float
    """Milliseconds that a job takes at most."""
    seed: int = 0


async def send(url: str, directory: Path, load: Load, *, history: bool = False) -> None:
    """Send until SIGTERM, and all that is to be sent at least."""
    enough = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, enough.set)
    async with connect(url, directory, history=history) as broker:
        await send_on(broker, Ledger(directory), load, enough)


async def send_on(
    broker: bee.Store, ledger: Ledger, load: Load, enough: asyncio.Event | None = None
) -> None:
    """Send on a broker that is there, until it is enough."""
    chance, queue = random.Random(load.seed), bee.Queue(broker, QUEUE, Jobs)
    sent, batch = 0, min(_BATCH, max(1, math.ceil(min(load.rate, 1e6) * _STEP)))
    due = time.monotonic()
    while sent < load.jobs or (enough is not None and not enough.is_set()):
        works = [some_job(chance, sent + n, load.longest) for n in range(batch)]
        await _until_accepted(queue, works, ledger)
        sent += len(works)
        due = max(due + len(works) / load.rate, time.monotonic() - _STEP)  # lost time stays lost
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if sent // batch % 20 == 0:
            await _until_fewer(broker)


async def _until_accepted(queue: bee.Queue[Jobs], works: list[Jobs], ledger: Ledger) -> None:
    """Send the same drafts until the store says that it has them: their ids make that safe.

    But for one case, which is written down: when the answer was lost, and the job is done and gone
    before it is sent again, then it is a new one.
    """
    drafts = [queue.draft(work) for work in works]
    # Queue.send_many does the same, but says nothing of the answers that it did not get.
    while True:
        try:
            await queue.broker.send(QUEUE, drafts)
        except bee.OutcomeUnknown:
            for draft in drafts:
                ledger.write("unknown", draft.id)
        except bee.BrokerError:
            await asyncio.sleep(_AGAIN)
        else:
            break
    for draft, work in zip(drafts, works, strict=True):
        ledger.write("sent", draft.id, int(isinstance(work, Kept | Bad)))


async def _until_fewer(broker: bee.Store) -> None:
    while True:
        try:
            if (await broker.stats(QUEUE)).live <= MOST_WAITING:
                return
        except bee.BrokerError:
            pass  # asked again in a moment
        await asyncio.sleep(_AGAIN * 5)


async def until_empty(url: str, patience: float) -> int:
    """Wait until nothing is live any more, or patience ends; return how much is left then."""
    deadline = time.monotonic() + patience
    async with bee.connect(url) as broker:
        while (left := (await broker.stats(QUEUE)).live) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
    return left
