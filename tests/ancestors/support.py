"""What the tests of several ancestors do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import bee_core as bee
from bee_core.broker import Store
from bee_core.testing.conformance import Harness
from bee_core.testing.conformance.steps import clones, send

EVERY_WAY: tuple[bee.Disposition, ...] = (
    bee.Delete(),
    bee.Archive(),
    bee.Reschedule(),
    bee.Reschedule(front=True),
)


async def drain(h: Harness, broker: Store | None = None) -> list[str]:
    """Take and delete what is ready until nothing comes; the ids, in order."""
    came: list[str] = []
    broker = broker or h.broker
    while leases := await broker.lease(h.queue, limit=7, duration=1000, holder="worker"):
        settlements = [bee.Settlement(lease.receipt, bee.Delete()) for lease in leases]
        assert set() == await broker.settle(h.queue, settlements)
        came += [lease.receipt.id for lease in leases]
    return came


async def drained_by_many(
    h: Harness, jobs: int, *, meanwhile: Callable[[], Awaitable[object]] | None = None
) -> Counter[str]:
    """What eight, who share a store, have taken between them while something else goes on."""
    for first in range(0, jobs, 100):
        await send(h, *(str(number) for number in range(first, min(first + 100, jobs))))
    over = asyncio.Event()

    async def meddle() -> None:
        while meanwhile is not None and not over.is_set():
            await meanwhile()
            await asyncio.sleep(0)

    async with clones(h, 8) as brokers, asyncio.TaskGroup() as group:
        group.create_task(meddle())
        taken = await asyncio.gather(*(drain(h, broker) for broker in brokers))
        over.set()
    return Counter(id for ids in taken for id in ids)


def once(jobs: int) -> Counter[str]:
    """Each of so many, once."""
    return Counter(str(number) for number in range(jobs))
