"""Mutants of keys: who holds one, and when it is let go."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from bee_core.checks import check_settlement
from bee_core.disposition import Archive, Disposition, Terminal
from bee_core.message import Draft, Lease, Receipt, Report, Sent, Settlement, Throttle, Update
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue
from bee_memory.turns import Turns

from .altered import Altered

replace = msgspec.structs.replace


class KeysMeanNothing(Altered):
    """Any number of messages of one key are held at once."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return super().admits(key, id, replace(throttle, per_key=None), now)


class OneHolderTooMany(Altered):
    """One message more than may be holds a key."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            more = None if throttle.per_key is None else throttle.per_key + 1
            return super().admits(key, id, replace(throttle, per_key=more), now)


class OneHolderWhateverIsAsked(Altered):
    """`per_key` is taken for one, whatever it says."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return super().admits(key, id, replace(throttle, per_key=1), now)


class NobodyIsBoundless(Altered):
    """Without a `per_key` a key has as many holders as there are fingers on a hand."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return super().admits(key, id, replace(throttle, per_key=throttle.per_key or 5), now)


class BoundlessLeasesHoldNoKey(Altered):
    """Who leases without a bound holds no key against others."""

    class turns_kind(Turns):
        def take(self, message: Message, throttle: Throttle, now: float) -> None:
            super().take(message, throttle, now)
            if throttle.per_key is None and message.key is not None:
                self.holders[message.key].discard(message.id)


class KeyIsNeverLetGo(Altered):
    """A key that was held once is held for ever."""

    class turns_kind(Turns):
        def let_go(self, key: str, id: str) -> None:
            pass


class LapsedOneWaitsForItself(Altered):
    """One whose lease ran out is not taken over, because its key is held: by itself."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return super().admits(key, f"not {id}", throttle, now)


class KeysAreTakenForTheirFirstLetter(Altered):
    """Keys that begin alike are one."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            alike = (held for held in self.holders if held[0] == key[0])
            return all(Turns.admits(self, one, id, throttle, now) for one in {key, *alike})


class KeysOfAllQueues(MemoryBroker):
    """A key that is held in one queue is held in all of them."""

    def _open(self, queue: str) -> Queue:
        q = super()._open(queue)
        q.turns.holders = next(iter(self._memory.queues.values())).turns.holders
        return q


class _Clinging(MemoryBroker):
    """Something does not let go of a key."""

    def cling(self, q: Queue, message: Message) -> None:
        """The message holds its key still."""
        if message.key is not None:
            q.turns.holders[message.key].add(message.id)


class ArchivedOneHoldsItsKey(_Clinging):
    """A message that is archived does not let its key go."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        if isinstance(disposition, Archive) and message.token is not None:
            self.cling(q, message)
        return rings


class CancelledOneHoldsItsKey(_Clinging):
    """A message that is cancelled does not let its key go."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        q = self._open(queue)
        held = [q.live[id] for id in ids if id in q.live and q.live[id].token is not None]
        missing = set(await super().cancel(queue, ids, to=to, running=running))
        for message in held:
            self.cling(q, message)
        return missing


class RepeatedOneHoldsItsKey(_Clinging):
    """A message that is to be repeated holds its key until then."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        super()._return(q, message, due, sequence)
        self.cling(q, message)


class MergedOneHoldsItsOldKey(_Clinging):
    """A message whose successor is merged into it does not let its old key go."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        merged, key = message.successor, message.key
        super()._return(q, message, due, sequence)
        if merged is not None and key is not None:
            q.turns.holders[key].add(message.id)


class LapsedOneLosesItsKey(MemoryBroker):
    """A lease that ran out holds its key no longer, though nobody has taken it over."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        q, now = self._open(queue), self._memory.clock.now()
        for message in list(q.live.values()):
            if message.token is not None and message.visible_at <= now:
                q.let_go(message.key, message.id, now)
        return await super().lease(queue, **how)


class ExtendLosesTheKey(MemoryBroker):
    """A lease that is extended holds its key no longer."""

    async def extend(self, queue: str, receipts: Sequence[Receipt], **how: Any) -> set[Receipt]:
        lost = set(await super().extend(queue, receipts, **how))
        q, now = self._open(queue), self._memory.clock.now()
        for receipt in set(receipts) - lost:
            q.let_go(q.live[receipt.id].key, receipt.id, now)
        return lost


class LostLeaseFreesTheKey(MemoryBroker):
    """Who settles a lease that was taken over frees the key of its message."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost = set(await super().settle(queue, settlements))
        q, now = self._open(queue), self._memory.clock.now()
        for receipt in lost:
            if receipt.id in q.live:
                q.let_go(q.live[receipt.id].key, receipt.id, now)
        return lost


class AnyCancelFreesTheKey(MemoryBroker):
    """Cancelling one that waits for a key frees it of its holder."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        q = self._open(queue)
        for id in ids:
            if id in q.live:
                q.turns.holders.pop(q.live[id].key or "", None)
        return set(await super().cancel(queue, ids, to=to, running=running))


class AnyUpdateFreesTheKey(MemoryBroker):
    """Updating one that waits for a key frees it of its holder."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        q.turns.holders.pop(message.key or "", None)
        super()._merge(q, message, arrival)


class KeyIsCheckedTooEarly(MemoryBroker):
    """Who holds a key is looked up before the lease, not in it."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        q = self._open(queue)
        seen = {key: set(ids) for key, ids in q.turns.holders.items()}
        await asyncio.sleep(0)
        q.turns.holders, now = defaultdict(set, seen), q.turns.holders
        try:
            return await super().lease(queue, **how)
        finally:
            for key, ids in now.items():
                q.turns.holders[key] |= ids


class LeaseDoesNotShowTheKey(MemoryBroker):
    """Who leases a message does not learn its key."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        return [replace(lease, key=None) for lease in await super().lease(queue, **how)]


class RestoredOneHasNoKey(MemoryBroker):
    """A restored message has lost its key."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        missing = set(await super().restore(queue, ids))
        for id in set(ids) - missing:
            self._open(queue).live[id].key = None
        return missing


class WhatFollowsHasNoKey(MemoryBroker):
    """What follows a message loses its key."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        for settlement in settlements:
            check_settlement(settlement)
        bare = [replace(s, then=[replace(d, key=None) for d in s.then]) for s in settlements]
        return set(await super().settle(queue, bare))


class SuccessorHasNoKey(MemoryBroker):
    """A successor loses its key."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        successor = q.live[draft.id].successor if draft.id in q.live else None
        if successor is not None:
            successor.draft = replace(successor.draft, key=None)
        return sent


class UpdateLeavesTheKey(MemoryBroker):
    """An update changes headers and priority, but not the key."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        arrival.draft = replace(arrival.draft, key=message.key)
        super()._merge(q, message, arrival)


class UpdateAlwaysReplacesTheKey(MemoryBroker):
    """An update that is to leave the policy alone replaces the key all the same."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        if not arrival.rule.policy:
            kept = {"headers": message.headers, "priority": message.priority}
            arrival.draft = replace(arrival.draft, **kept)
            rule = arrival.rule
            arrival.rule = Update(
                payload=rule.payload, run_at=rule.run_at, reset_counts=rule.resets
            )
        super()._merge(q, message, arrival)


class DropLeavesTheKeys(MemoryBroker):
    """The keys of a dropped queue are still held."""

    async def drop(self, queue: str) -> None:
        holders = self._open(queue).turns.holders
        await super().drop(queue)
        self._open(queue).turns.holders = holders
