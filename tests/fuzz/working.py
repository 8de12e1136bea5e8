"""A worker whose queue is full of hostile bodies: it runs what can be run, and keeps the rest."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import bee_core as bee
from bee_core.broker import Store
from bee_core.ids import new_id
from tests.core.shapes import Everything
from tests.core.support import SendEmail
from tests.fuzz.bodies import CODEC, Bodies
from tests.fuzz.decoding import decode

BATCH = 20


@dataclass
class Working:
    """What was sent, by what it turned out to be; and what is wrong with what became of it."""

    sent: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


async def run(broker: Store, bodies: int, *, seed: int = 0, patience: float = 120) -> Working:
    """Send so many, with good jobs in between, and let a worker see to all of them."""
    queue, outcome, ran = f"f{new_id()[-12:]}", Working(), Counter[str]()
    hostile = {f"hostile-{n}": body for n, body in enumerate(islice(Bodies(seed), bodies))}
    good = {f"good-{n}": CODEC.encode(SendEmail(to="ada")) for n in range(bodies // 10)}
    drafts = [bee.Draft(id, body) for id, body in (hostile | good).items()]
    Bodies(seed).chance.shuffle(drafts)
    for first in range(0, len(drafts), BATCH):
        await broker.send(queue, drafts[first : first + BATCH])

    async def handle(job: Everything, delivery: bee.Delivery[Everything]) -> None:
        ran[delivery.id] += 1

    worker = bee.Worker(broker, queue, Everything, handle, observers=())
    async with worker.working(), asyncio.timeout(patience):
        while (stats := await broker.stats(queue)).ready or stats.leased:
            await asyncio.sleep(0.02)

    for id, body in (hostile | good).items():
        answer = decode(body)
        outcome.sent[answer] += 1
        if problem := _problem(answer, body, ran[id], await broker.get(queue, id)):
            outcome.faults.append(f"{id} ({answer}) {problem}: {body[:200]!r}")
    await broker.drop(queue)
    return outcome


def _problem(answer: str, body: bytes, runs: int, kept: bee.Stored | None) -> str | None:
    """What is wrong with what became of one; a job runs once, all else is kept as it is."""
    if answer == "job":
        return None if (runs, kept) == (1, None) else f"ran {runs} times, and is {kept}"
    if runs:
        return "ran"
    if kept is None:
        return "is lost"
    if kept.body != body:
        return f"was changed: {kept.body[:200]!r}"
    is_archived, reason = kept.state is bee.State.ARCHIVED, kept.note.reason if kept.note else None
    right = (is_archived, reason) == (answer == "malformed", answer)
    return None if right else f"is {kept.state} as {reason}"
