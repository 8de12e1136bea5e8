"""Calls that are cancelled half way: applied wholly or not at all, and no harm to the next one.

How far a call gets before it is cancelled is up to the store, so each test tries several
moments. A store that does not wait for anything passes easily, and should.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from bee_core.disposition import Delete
from bee_core.message import Sent, Settlement
from bee_core.stored import State
from bee_core.testing.conformance.harness import Conformance, Harness
from bee_core.testing.conformance.scan import pages
from bee_core.testing.conformance.steps import SHORT, counts, draft, ids, lease, send
from bee_core.testing.conformance.together import take

MOMENTS = range(12)


class Interrupted(Conformance):
    """Cancelled at any await."""

    async def test_a_cancelled_send_is_stored_wholly_or_not_at_all(self) -> None:
        async with self.harness() as h:
            for pause in range(12):
                batch = [draft(h, f"{pause} {n}") for n in range(5)]
                await interrupt(h, h.broker.send(h.queue, batch), pause)
                stored = [id for id in await live(h) if id.startswith(f"{pause} ")]

                assert len(stored) in (0, 5)
                again = await h.broker.send(h.queue, batch)
                assert {Sent.CREATED, Sent.KEPT} >= set(again)

            assert 60 == len(await live(h))

    async def test_a_cancelled_lease_loses_nothing(self) -> None:
        async with self.harness() as h:
            wanted = [str(n) for n in range(24)]
            await send(h, *wanted)

            for pause in range(12):
                await interrupt(h, take(h, h.broker, 2, SHORT), pause)
            await h.advance(2 * SHORT)

            assert wanted == ids(await lease(h))

    async def test_a_cancelled_settle_is_applied_wholly_or_not_at_all(self) -> None:
        async with self.harness() as h:
            await send(h, *(str(n) for n in range(12)))
            for pause, held in enumerate(await lease(h)):
                then = [draft(h, f"{held.receipt.id} {n}") for n in range(3)]
                settlement = Settlement(held.receipt, Delete(), then=then)

                await interrupt(h, h.broker.settle(h.queue, [settlement]), pause)
                found = [id for id in await live(h) if id.split()[0] == held.receipt.id]

                whole = ([held.receipt.id], [one.id for one in then])
                assert sorted(found) in [sorted(some) for some in whole]
                await h.broker.settle(h.queue, [settlement])

            assert 36 == (await counts(h)).ready


async def interrupt(h: Harness, work: Coroutine[object, object, object], moment: int) -> None:
    """Begin the work, cancel it after so many turns of the event loop, let the dust settle."""
    task = asyncio.create_task(work)
    for _ in range(moment):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await h.advance(1)


async def live(h: Harness) -> list[str]:
    """The ids of everything that is ready or leased."""
    return ids([*await pages(h, State.READY, 100), *await pages(h, State.LEASED, 100)])
