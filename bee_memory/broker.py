"""The broker in memory, and the executable specification of every other one.

Plain and complete: when in doubt what a verb means, read it here. Each verb takes the
lock once and does all its work inside. Nothing is kept when the process ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import assert_never
from weakref import WeakValueDictionary

import msgspec

from bee_core.broker import Store
from bee_core.checks import check_draft, check_holder, check_ids, check_terminal, check_whole
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.duration import seconds
from bee_core.errors import BrokerFull, IdTaken, InvalidName, InvalidOption
from bee_core.message import (
    ZERO,
    Counters,
    Draft,
    Keep,
    Lease,
    Note,
    Receipt,
    Reject,
    RunAt,
    Sent,
    Settlement,
    State,
    Update,
)
from bee_core.url import Url
from bee_memory.inspector import MemoryInspector
from bee_memory.state import Arrival, Memory, Message, Queue

_DELIVERED = Counters(deliveries=1)
_STALLED = Counters(stalls=1)
_NAMED: WeakValueDictionary[str, Memory] = WeakValueDictionary()


class MemoryBroker(MemoryInspector, Store):
    """Messages in this process, gone with it. Safe to share between threads and event loops."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, max_length: int | None = None) -> None:
        self._memory = Memory(clock, max_length)
        self._closed = False

    @classmethod
    def from_url(cls, url: Url) -> MemoryBroker:
        """`memory://` is a store of its own; `memory://name` is shared by that name."""
        max_length = url.integer("max_length")
        url.finish()
        broker = cls(max_length=max_length)
        if url.rest:
            shared = broker._memory = _NAMED.setdefault(url.rest, broker._memory)
            if max_length is not None and shared.max_length != max_length:
                raise InvalidOption(f"memory://{url.rest} exists, with another max_length")
        return broker

    def clone(self) -> MemoryBroker:
        broker = type(self)()
        broker._memory = self._memory
        return broker

    async def aclose(self) -> None:
        self._closed = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: keeps nothing when this process ends>"

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        if len({check_draft(draft).id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        with self._memory.lock:
            q = self._open(queue)
            taken = [d.id for d in drafts if isinstance(d.if_taken, Reject) and d.id in q.live]
            if taken:
                raise IdTaken(queue, taken)
            most = self._memory.max_length
            if most is not None and len(q.live) + sum(d.id not in q.live for d in drafts) > most:
                raise BrokerFull(f"queue {queue!r} is full: max_length={most}")
            sent = [self._send(q, draft) for draft in drafts]
            q.ring(len(drafts))
            return sent

    async def lease(
        self, queue: str, *, limit: int, duration: float, holder: str
    ) -> Sequence[Lease]:
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        duration = seconds(duration, "duration", least=0.001)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            leases: list[Lease] = []
            while not q.paused and len(leases) < limit and (message := q.first(now)):
                if message.token is not None:  # its lease ran out: take it over
                    message.counters += _STALLED
                    if message.successor is not None:
                        self._return(q, message, message.due, message.sequence)
                        continue  # merged, it may be due later or stand elsewhere in the order
                message.counters += _DELIVERED
                message.token = next(self._memory.tokens)
                message.holder = holder
                message.visible_at = now + duration
                q.order(message, now)
                leases.append(_lease(message, message.token))
            if not q.paused and q.first(now):
                q.ring(1)  # more is ready than was taken: pass the wake-up on
            return leases

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float
    ) -> AbstractSet[Receipt]:
        duration = seconds(duration, "duration", least=0.001)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            lost = set()
            for receipt in receipts:
                message = _held(q, receipt)
                if message is None:
                    lost.add(receipt)
                    continue
                message.visible_at = now + duration
                q.order(message, now)
            return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            for draft in settlement.then:
                check_draft(draft)
        with self._memory.lock:
            q = self._open(queue)
            lost, rings = set(), 0
            for settlement in settlements:
                message = _held(q, settlement.receipt)  # 1. check
                if message is None:
                    lost.add(settlement.receipt)
                    continue
                message.counters += settlement.counters  # 2. count
                message.note = settlement.note or message.note
                rings += self._dispose(q, message, settlement.disposition)  # 3. dispose, 4. succeed
                for draft in settlement.then:  # 5. send
                    self._send(q, draft)
                rings += len(settlement.then)
            q.ring(rings)  # 6. ring
            return lost

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        check_ids(ids)
        check_terminal(to)
        with self._memory.lock:
            q = self._open(queue)
            missing, rings = set(), 0
            for id in ids:
                message = q.live.get(id)
                if message is None:
                    missing.add(id)
                elif message.token is None or running:
                    message.note = Note("cancelled")
                    rings += self._dispose(q, message, to)
                elif message.successor is not None:
                    blocked = message.successor.message()
                    blocked.note = Note("cancelled")
                    message.successor = None
                    self._keep_if_archived(q, blocked, to)
                else:
                    missing.add(id)
            q.ring(rings)
            return missing

    async def wait(self, queue: str, *, timeout: float) -> None:
        timeout = seconds(timeout, "timeout")
        bell = asyncio.get_running_loop().create_future()
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            if q.first(now) and not q.paused:
                return
            next_at = q.hidden[0][0] if q.hidden and not q.paused else math.inf
            q.bells.append(bell)
        pause = self._memory.clock.sleep(min(timeout, next_at - now))
        sleeper = asyncio.ensure_future(pause)
        sleeper.set_name("bee:sleep")
        try:
            await asyncio.wait({bell, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            with self._memory.lock:
                if bell not in q.bells:
                    q.ring(1)  # it was rung, for a message that somebody must fetch
            raise
        finally:
            sleeper.cancel()
            with self._memory.lock, suppress(ValueError):
                q.bells.remove(bell)

    # The steps that the verbs share.

    def _send(self, q: Queue, draft: Draft) -> Sent:
        now = self._memory.clock.now()
        message = q.live.get(draft.id)
        if message is None:
            q.enter(self._memory.arrive(draft, Update(), now).message(), now)
            return Sent.CREATED
        match draft.if_taken:
            case Keep() | Reject():
                return Sent.KEPT
            case Update() as rule:
                arrival = self._memory.arrive(draft, rule, now)
                if message.token is None:
                    self._merge(q, message, arrival)
                    return Sent.UPDATED
                if message.successor is None:
                    message.successor = arrival
                else:
                    _join(message.successor, arrival)
                return Sent.BLOCKED
            case _:
                assert_never(draft.if_taken)

    def _dispose(self, q: Queue, message: Message, disposition: Disposition) -> int:
        """Do what the disposition says and see to the successor. Return how many may be ready."""
        now = self._memory.clock.now()
        match disposition:
            case Delete() | Archive():
                del q.live[message.id]
                self._keep_if_archived(q, message, disposition)
                if message.successor is None:
                    return 0
                q.enter(message.successor.message(), now)
            case Reschedule(front=True):
                self._return(q, message, message.due, message.sequence)
            case Reschedule(delay=delay):
                self._return(q, message, now + delay, next(self._memory.sequence))
            case _:
                assert_never(disposition)
        return 1

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        if isinstance(to, Archive):
            stored = message.stored(State.ARCHIVED, self._memory.clock.now())
            q.archive[message.id, message.incarnation] = stored

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        """A leased message waits again, at that place; its successor is merged into it."""
        message.token = None
        message.due, message.sequence = due, sequence
        successor, message.successor = message.successor, None
        if successor is None:
            q.enter(message, self._memory.clock.now())
        else:
            self._merge(q, message, successor)

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        """Change a message that waits, field by field."""
        rule, draft = arrival.rule, arrival.draft
        if rule.payload:
            message.body = draft.body
        if rule.policy:
            message.headers, message.priority = draft.headers, draft.priority
        if rule.resets:
            message.counters = ZERO
        if _moves(rule, message.due, arrival.due):
            message.due, message.sequence = arrival.due, arrival.number
        q.enter(message, self._memory.clock.now())


def _held(q: Queue, receipt: Receipt) -> Message | None:
    """The message this receipt holds; None if the receipt is lost."""
    message = q.live.get(receipt.id)
    return message if message is not None and message.token == receipt.token else None


def _lease(message: Message, token: int) -> Lease:
    return Lease(
        Receipt(message.id, token),
        message.body,
        message.headers,
        message.counters,
        message.sent_at,
    )


def _moves(rule: Update, old: float, new: float) -> bool:
    """Whether a message due at `old` is to be due at `new` instead."""
    match rule.run_at:
        case "always":
            return True
        case "never":
            return False
        case "if_later":
            return new > old
        case "if_earlier":
            return new < old
        case _:
            assert_never(rule.run_at)


def _both(first: RunAt, second: RunAt, moved: bool) -> RunAt:
    """The rule for the time that two rules, one after the other, have left in a successor."""
    if second == "never" or first == second:
        return first
    if first == "never":
        return second
    return "always" if moved or "always" in (first, second) else first


def _join(successor: Arrival, further: Arrival) -> None:
    """Merge a further draft into a successor, which then remembers both their wishes."""
    first, second = successor.rule, further.rule
    draft = successor.draft
    if second.payload:
        draft = msgspec.structs.replace(draft, body=further.draft.body)
    if second.policy:
        headers, priority = further.draft.headers, further.draft.priority
        draft = msgspec.structs.replace(draft, headers=headers, priority=priority)
    moved = _moves(second, successor.due, further.due)
    if moved:
        successor.due, successor.number = further.due, further.number
    successor.draft = draft
    successor.rule = Update(
        payload=first.payload or second.payload,
        run_at=_both(first.run_at, second.run_at, moved),
        policy=first.policy or second.policy,
        reset_counts=first.resets or second.resets,
    )
