"""The program whose processes are killed: a hive of two queues that share a capacity."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import bee_core as bee
from bee_core.events import AttemptLost, AttemptSettled, Event
from tests.chaos.ledger import Ledger

URL, DIRECTORY = "BEE_CHAOS_URL", "BEE_CHAOS_DIRECTORY"
QUEUES = ("mail", "films")
LEASE = 2.0
GRACE = 0.5


class Work(bee.Job):
    """Takes `milliseconds`."""

    milliseconds: float = 0.0


def make_hive(ledger: Ledger, url: str | None = None, broker: bee.Store | None = None) -> bee.Hive:
    """A hive that writes down what it does."""

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        ledger.write("run", delivery.id, delivery.token)
        await asyncio.sleep(job.milliseconds / 1000)

    def observe(event: Event) -> None:
        match event:
            case AttemptSettled(disposition=bee.Delete()):
                ledger.write("settled", event.id, event.token)
            case AttemptSettled(disposition=bee.Reschedule(front=True)):
                ledger.write("released", event.id, event.token)
            case AttemptLost():
                ledger.write("lost", event.id, event.token)
        if isinstance(event, AttemptSettled) and (event.counters.errors or event.counters.timeouts):
            ledger.write("error", event.id, event.token)

    hive = bee.Hive(
        url,
        broker=broker,
        policy=bee.Policy(on_stall=bee.Repeat(None)),
        capacity=40,
        concurrency=30,
        lease=LEASE,
        grace=GRACE,
        poll=0.2,
        observers=(observe,),
    )
    for name in QUEUES:
        hive.queue(name, Work, share=5).handler(handle)
    return hive


if DIRECTORY in os.environ:
    hive = make_hive(Ledger(Path(os.environ[DIRECTORY])), os.environ[URL])
