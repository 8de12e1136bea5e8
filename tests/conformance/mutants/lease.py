"""Mutants of `lease` and `extend`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from bee_core.message import Counters, Lease, Receipt
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue


class _Hooked(MemoryBroker):
    """A broker whose leases can be tampered with, before and after."""

    def before(self, q: Queue, now: float) -> None:
        pass

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return lease

    async def lease(
        self, queue: str, *, limit: int, duration: float, **rest: Any
    ) -> Sequence[Lease]:
        q = self._open(queue)
        self.before(q, self._memory.clock.now())
        leases = await super().lease(queue, limit=limit, duration=duration, **rest)
        return [self.after(q, q.live[lease.receipt.id], lease) for lease in leases]


def _run_out(q: Queue, now: float) -> Iterator[Message]:
    """The messages whose lease ran out."""
    for message in q.live.values():
        if message.token is not None and message.visible_at <= now:
            yield message


def _retoken(message: Message, lease: Lease, token: int) -> Lease:
    message.token = token
    return msgspec.structs.replace(lease, receipt=Receipt(message.id, token))


def _recount(message: Message, lease: Lease, counters: Counters) -> Lease:
    message.counters = counters
    return msgspec.structs.replace(lease, counters=counters)


class LeaseDoesNotHide(_Hooked):
    """A message that is held is given out again."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        message.visible_at = now = self._memory.clock.now()
        q.order(message, now)
        return lease


class LeaseTakesOneMore(MemoryBroker):
    """A lease takes one message more than it was asked to."""

    async def lease(
        self, queue: str, *, limit: int, duration: float, **rest: Any
    ) -> Sequence[Lease]:
        more = limit + 1 if limit > 1 else limit
        return await super().lease(queue, limit=more, duration=duration, **rest)


class DurationIsNotChecked(MemoryBroker):
    """A lease or an extension of no length is taken for a short one."""

    async def lease(
        self, queue: str, *, limit: int, duration: float, **rest: Any
    ) -> Sequence[Lease]:
        least = max(0.001, duration)
        return await super().lease(queue, limit=limit, duration=least, **rest)


class LeaseNeverRunsOut(_Hooked):
    """A message whose holder died does not come back."""

    def before(self, q: Queue, now: float) -> None:
        for message in _run_out(q, now):
            message.visible_at = now + 1


class OneTakeOverPerCall(_Hooked):
    """Of many leases that ran out, one comes back with each call."""

    def before(self, q: Queue, now: float) -> None:
        for message in list(_run_out(q, now))[1:]:
            message.visible_at = now + 0.1
            q.order(message, now)


class RedeliveredToTheBack(_Hooked):
    """A message whose lease ran out loses its place."""

    def before(self, q: Queue, now: float) -> None:
        for message in _run_out(q, now):
            message.due, message.sequence = now, next(self._memory.sequence)
            q.order(message, now)


class EveryoneOfAHolderComesBack(_Hooked):
    """When one lease of a queue runs out, all of them do."""

    def before(self, q: Queue, now: float) -> None:
        if any(_run_out(q, now)):
            for message in q.live.values():
                if message.token is not None:
                    message.visible_at = now
                    q.order(message, now)


class StallsNotCounted(_Hooked):
    """Taking over a lease that ran out leaves no trace."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _recount(message, lease, msgspec.structs.replace(lease.counters, stalls=0))


class StallsAreErrors(_Hooked):
    """A lease that ran out counts as an error."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        old = lease.counters
        errors = old.errors + old.stalls
        return _recount(message, lease, msgspec.structs.replace(old, stalls=0, errors=errors))


class StallsCountedTooEarly(_Hooked):
    """A stall is counted when somebody looks, not when the lease is taken over."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        for message in _run_out(self._open(queue), self._memory.clock.now()):
            message.counters += Counters(stalls=1)
        return set(await super().extend(queue, receipts, duration=duration, **rest))


class DeliveriesNotCounted(_Hooked):
    """Nobody can say how often a message was leased."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _recount(message, lease, msgspec.structs.replace(lease.counters, deliveries=0))


class HolderIsTheFirst(_Hooked):
    """A message taken over still bears the name of who held it before."""

    def before(self, q: Queue, now: float) -> None:
        self._holders = {message.id: message.holder for message in _run_out(q, now)}

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        message.holder = self._holders.get(message.id, message.holder)
        return lease


class TokenAlwaysTheSame(_Hooked):
    """Every lease has the same token."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _retoken(message, lease, 7)


class TokenOfTheCall(_Hooked):
    """All leases of one call have the same token."""

    def before(self, q: Queue, now: float) -> None:
        self._token = self._memory.next_token()

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _retoken(message, lease, self._token)


class TokenPerMessage(_Hooked):
    """Every message counts its tokens from one."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _retoken(message, lease, lease.counters.deliveries)


class TokenPerQueue(_Hooked):
    """Every queue counts its tokens from one."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        counters = vars(self._memory).setdefault("by_queue", {})
        return _retoken(message, lease, next(counters.setdefault(id(q), count(1))))


class TokenPerClone(_Hooked):
    """Every broker object counts its tokens from one."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        own = vars(self).setdefault("_tokens", count(1))
        return _retoken(message, lease, next(own))


class TokenOutlivesItsLease(_Hooked):
    """Who takes over a lease gets the token of the one before."""

    def before(self, q: Queue, now: float) -> None:
        self._tokens = {message.id: message.token for message in _run_out(q, now)}

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _retoken(message, lease, self._tokens.get(message.id) or lease.receipt.token)


class TokensFall(_Hooked):
    """A later token is smaller, so that it fences nothing."""

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        return _retoken(message, lease, 1_000_000 - lease.receipt.token)


class TokensStartAgainAfterDrop(MemoryBroker):
    """Dropping a queue makes its tokens new again."""

    async def drop(self, queue: str) -> None:
        await super().drop(queue)
        self._memory.token = 0


class TakeOverForgetsTheSuccessor(_Hooked):
    """A lease that ran out is taken over with the old body; its successor goes on waiting."""

    def before(self, q: Queue, now: float) -> None:
        self._successors: dict[str, Arrival | None] = {}
        for message in _run_out(q, now):
            self._successors[message.id], message.successor = message.successor, None

    def after(self, q: Queue, message: Message, lease: Lease) -> Lease:
        message.successor = self._successors.get(message.id)
        return lease


class ExtendRevivesALostLease(MemoryBroker):
    """A stale holder that extends gets the message back from the present one."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        q = self._open(queue)
        for receipt in receipts:
            message = q.live.get(receipt.id)
            if message is not None and message.token is not None:
                message.token = receipt.token
        return set(await super().extend(queue, receipts, duration=duration, **rest))


class ExtendAddsToTheEnd(MemoryBroker):
    """A lease is extended from its end, not from now."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        q, now = self._open(queue), self._memory.clock.now()
        ends = {id: message.visible_at for id, message in q.live.items()}
        lost = set(await super().extend(queue, receipts, duration=duration, **rest))
        for receipt in set(receipts) - lost:
            message = q.live[receipt.id]
            message.visible_at = ends[receipt.id] + duration
            q.order(message, now)
        return lost


class ExtendDoesNothing(MemoryBroker):
    """A lease runs out however often it is extended."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        q, now = self._open(queue), self._memory.clock.now()
        ends = {id: message.visible_at for id, message in q.live.items()}
        lost = set(await super().extend(queue, receipts, duration=duration, **rest))
        for receipt in set(receipts) - lost:
            q.live[receipt.id].visible_at = ends[receipt.id]
            q.order(q.live[receipt.id], now)
        return lost


class ExtendIsTooLateByTheClock(MemoryBroker):
    """A lease that ran out cannot be extended, though nobody took it over."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        late = {m.id for m in _run_out(self._open(queue), self._memory.clock.now())}
        good = [receipt for receipt in receipts if receipt.id not in late]
        lost = await super().extend(queue, good, duration=duration, **rest)
        return set(lost) | set(receipts).difference(good)


class ExtendLosesTheWholeBatch(MemoryBroker):
    """One lost receipt makes all the others lost too."""

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float, **rest: Any
    ) -> set[Receipt]:
        lost = await super().extend(queue, receipts, duration=duration, **rest)
        return set(receipts) if lost else set()
