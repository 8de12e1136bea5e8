"""Mutants that go wrong only when others are about, or when they are cancelled half way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from bee_core.checks import check_draft
from bee_core.errors import IdTaken
from bee_core.message import KEEP, Draft, Lease, Receipt, Reject, Sent, Settlement
from bee_core.stored import QueueStats
from bee_memory import MemoryBroker

replace = msgspec.structs.replace


class SendInSteps(MemoryBroker):
    """A send that is cancelled has stored half of its batch."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        if len({check_draft(d).id for d in drafts}) < len(drafts) or any(
            isinstance(d.if_taken, Reject) for d in drafts
        ):
            return await super().send(queue, drafts)
        sent: list[Sent] = []
        for draft in drafts:
            sent += await super().send(queue, [draft])
            await asyncio.sleep(0)
        return sent


class RejectInSteps(MemoryBroker):
    """Whether an id is free is looked up before the send, not in it."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        await super().send(queue, [])
        live = self._open(queue).live
        taken = [d.id for d in drafts if isinstance(d.if_taken, Reject) and d.id in live]
        if taken:
            raise IdTaken(queue, taken)
        await asyncio.sleep(0)
        kept = [replace(d, if_taken=KEEP) if d.if_taken == Reject() else d for d in drafts]
        return await super().send(queue, kept)


class LeaseInSteps(MemoryBroker):
    """A message is hidden only after it was given out."""

    async def lease(
        self, queue: str, *, limit: int, duration: float, **rest: Any
    ) -> Sequence[Lease]:
        leases = await super().lease(queue, limit=limit, duration=duration, **rest)
        q, now = self._open(queue), self._memory.clock.now()
        messages = [q.live[lease.receipt.id] for lease in leases]
        for message in messages:
            message.visible_at, end = now, message.visible_at
            q.order(message, now)
        await asyncio.sleep(0)
        for message in messages:
            message.visible_at = end
            q.order(message, now)
        return leases


class CancelledLeaseTakesThemAlong(MemoryBroker):
    """A lease that is cancelled loses the messages it took."""

    async def lease(
        self, queue: str, *, limit: int, duration: float, **rest: Any
    ) -> Sequence[Lease]:
        leases = await super().lease(queue, limit=limit, duration=duration, **rest)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            for lease in leases:
                del self._open(queue).live[lease.receipt.id]
            raise
        return leases


class SettleInSteps(MemoryBroker):
    """The token is checked before the settlement, not in it."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q = self._open(queue)
        good: list[Settlement] = []
        for settlement in settlements:
            message = q.live.get(settlement.receipt.id)
            if message is not None and message.token == settlement.receipt.token:
                good.append(settlement)
        await asyncio.sleep(0)
        for settlement in good:
            message = q.live.get(settlement.receipt.id)
            if message is not None:
                message.token = settlement.receipt.token
        await super().settle(queue, good)
        return {s.receipt for s in settlements} - {s.receipt for s in good}


class ThenInSteps(MemoryBroker):
    """A settle that is cancelled has ended the lease, but what follows was not sent."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        for settlement in settlements:
            for draft in settlement.then:
                check_draft(draft)
        alone = [replace(settlement, then=()) for settlement in settlements]
        lost = set(await super().settle(queue, alone))
        await asyncio.sleep(0)
        q = self._open(queue)
        for settlement in settlements:
            if settlement.receipt not in lost:
                for draft in settlement.then:
                    self._send(q, draft)
                q.ring(len(settlement.then), self._memory.clock.now())
        return lost


class StatsInSteps(MemoryBroker):
    """Stats are put together from two looks."""

    async def stats(self, queue: str) -> QueueStats:
        first = await super().stats(queue)
        await asyncio.sleep(0)
        second = await super().stats(queue)
        return replace(second, ready=first.ready)


class PruneCountsTooEarly(MemoryBroker):
    """Who prunes counts how many to delete, and deletes as many later."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        too_many = max(0, len(self._open(queue).archive) - keep)
        await asyncio.sleep(0)
        return await super().prune(queue, older_than=older_than, limit=min(limit, too_many))
