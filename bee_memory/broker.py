"""The broker in memory, and the executable specification of every other one.

Plain and complete: when in doubt what a verb means, read it here. Each verb takes the
lock once and does all its work inside. Nothing is kept when the process ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import assert_never
from weakref import WeakValueDictionary

from bee_core.broker import NOTHING, Store
from bee_core.checks import (
    check_about,
    check_draft,
    check_holder,
    check_id,
    check_ids,
    check_progress,
    check_remarks,
    check_settlement,
    check_terminal,
    check_whole,
)
from bee_core.clock import SYSTEM_CLOCK, Clock
from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.duration import seconds
from bee_core.errors import BrokerFull, IdTaken, InvalidName, InvalidOption
from bee_core.message import (
    THROTTLE,
    Counters,
    Draft,
    Keep,
    Lease,
    Note,
    Receipt,
    Reject,
    Report,
    Sent,
    Settlement,
    Throttle,
    Update,
)
from bee_core.stored import State
from bee_core.url import Url
from bee_memory.inspector import MemoryInspector
from bee_memory.messages import Arrival, Message
from bee_memory.rules import join, revise
from bee_memory.state import Memory, Queue

_DELIVERED = Counters(deliveries=1)
_STALLED = Counters(stalls=1)
_RAN_OUT, _AT_ITS_PLACE = Note("stalled"), Reschedule(front=True)
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
            q.ring(len(drafts), self._memory.clock.now())
            return sent

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        duration = seconds(duration, "duration", least=0.001)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            room = 0.0 if q.paused else min(limit, q.turns.room(throttle, now))
            leases: list[Lease] = []
            while len(leases) < room and (message := q.first(now)):
                key = message.key
                if key is not None and not q.turns.admits(key, message.id, throttle, now):
                    q.turns.park(message)
                    continue
                if message.token is not None:  # its lease ran out: take it over
                    message.counters += _STALLED
                    message.remember(_RAN_OUT, _AT_ITS_PLACE, now)
                    if message.successor is not None:
                        self._return(q, message, message.due, message.sequence)
                        continue  # merged, it may be due later or stand elsewhere in the order
                message.counters += _DELIVERED
                message.token = self._memory.next_token()
                message.holder = holder
                message.leased_at = now
                message.visible_at = now + duration
                q.taken(message, now)
                q.turns.take(message, throttle, now)
                if key is not None:
                    q.unpark(key, now)  # there may be room for another
                leases.append(message.lease(now))
            if not q.paused and q.turns.room(throttle, now) and q.first(now):
                q.ring(1, now)  # more is ready than was taken: pass the wake-up on
            return leases

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        duration = seconds(duration, "duration", least=0.001)
        check_progress(progress)
        check_remarks(remarks)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            lost = set()
            for receipt in receipts:
                message = q.held(receipt)
                if message is None:
                    lost.add(receipt)
                    continue
                message.visible_at = now + duration
                message.parked = False
                message.progress = progress.get(message.id, message.progress)
                message.remark = remarks.get(message.id, message.remark)
                q.order(message, now)
            return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            check_settlement(settlement)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            lost, rings = set(), 0
            for settlement in settlements:
                message = q.held(settlement.receipt)  # 1. check
                if message is None:
                    lost.add(settlement.receipt)
                    continue
                message.counters += settlement.counters  # 2. count
                message.note = settlement.note or message.note
                way, keep = settlement.disposition, settlement.keep
                message.remember(settlement.note, way, now, settlement.summary)
                end = message.end(settlement.result)
                rings += self._dispose(q, message, way, end, keep)  # 3. dispose, 4. succeed
                for draft in settlement.then:  # 5. send
                    self._send(q, draft)
                rings += len(settlement.then)
            q.ring(rings, self._memory.clock.now())  # 6. ring
            return lost

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        check_ids(ids)
        check_terminal(to)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            missing, rings = set(), 0
            for id in ids:
                message = q.live.get(id)
                if message is None:
                    missing.add(id)
                elif message.token is None or running:
                    if message.token is not None:  # its holder may be among those who wait
                        rings += len(q.bells)
                    message.note = Note("cancelled")
                    message.remember(message.note, to, now)
                    rings += self._dispose(q, message, to, message.end())
                elif message.successor is not None:
                    blocked = message.successor.message()
                    blocked.note = Note("cancelled")
                    message.successor = None
                    self._keep_if_archived(q, blocked, to)
                else:
                    missing.add(id)
            q.ring(rings, self._memory.clock.now())
            return missing

    async def wait(self, queue: str, *, timeout: float) -> None:
        timeout = seconds(timeout, "timeout")
        bell = asyncio.get_running_loop().create_future()
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            next_at = math.inf if q.paused else q.next_at(now)
            if next_at <= now:
                return
            q.bells.append(bell)
        pause = self._memory.clock.sleep(min(timeout, next_at - now))
        sleeper = asyncio.ensure_future(pause)
        sleeper.set_name("bee:sleep")
        try:
            await asyncio.wait({bell, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            with self._memory.lock:
                if bell not in q.bells:  # it was rung, for a message that somebody must fetch
                    q.ring(1, self._memory.clock.now())
            raise
        finally:
            sleeper.cancel()
            with self._memory.lock, suppress(ValueError):
                q.bells.remove(bell)

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        check_ids(ids)
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            found = {id: q.results[id] for id in ids if id in q.results}
            return {id: end for id, (until, end) in found.items() if until > now}

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        check_id(id)
        check_whole(limit, "limit", least=1)
        with self._memory.lock:
            found = self._open(queue).reports.get(id, {})
            return [found[child] for child in sorted(found) if child > after][:limit]

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        check_holder(holder)
        check_about(about)
        duration = seconds(duration, "duration")
        with self._memory.lock:
            q, now = self._open(queue), self._memory.clock.now()
            q.announce(holder, about, now, now + duration)

    # The steps that the verbs share.

    def _send(self, q: Queue, draft: Draft) -> Sent:
        now = self._memory.clock.now()
        message = q.live.get(draft.id)
        if message is None:
            if draft.reports_to in q.live and draft.id in q.reports[draft.reports_to]:
                return Sent.KEPT
            if draft.awaits:
                q.reports.pop(draft.id, None)
            q.create(self._memory.arrive(draft, Update(), now), now)
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
                    join(message.successor, arrival)
                return Sent.BLOCKED
            case _:
                assert_never(draft.if_taken)

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        """Do what the disposition says, and what follows. Return how many may be ready."""
        now = self._memory.clock.now()
        match disposition:
            case Delete() | Archive():
                del q.live[message.id]
                self._keep_if_archived(q, message, disposition)
                q.forget_reports(message.id)
                if message.successor is not None:
                    if message.successor.draft.awaits:
                        q.reports.pop(message.id, None)
                    q.create(message.successor, now)
                q.let_go(message.key, message.id, now)
                if keep:
                    q.keep(end, now + keep, now)
                followed = (message.successor, message.key, message.reports_to)
                self._report(q, message.reports_to, end, now)
                return sum(one is not None for one in followed)
            case Reschedule(front=True):
                self._return(q, message, message.due, message.sequence)
            case Reschedule(delay=delay):
                self._return(q, message, now + delay, next(self._memory.sequence))
            case _:
                assert_never(disposition)
        return 1

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        """Tell a message how another has ended. The last report that it awaits makes it due."""
        message = q.live.get(to) if to is not None else None
        if message is None or not message.awaits or end.id in q.reports[message.id]:
            return
        heard = q.reports[message.id]
        heard[end.id] = end
        if len(heard) == message.awaits and message.token is None and message.due > now:
            message.due, message.sequence = now, next(self._memory.sequence)
            q.enter(message, now)

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        if isinstance(to, Archive):
            stored = message.stored(State.ARCHIVED, self._memory.clock.now())
            q.archive[message.id, message.incarnation] = stored

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        """A leased message waits again, at that place; its successor is merged into it."""
        message.token = None
        message.due, message.sequence = due, sequence
        successor, message.successor = message.successor, None
        if successor is not None:
            self._merge(q, message, successor)
            return
        q.enter(message, self._memory.clock.now())
        q.let_go(message.key, message.id, self._memory.clock.now())

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        """Change a message that waits, field by field."""
        key = message.key
        revise(message, arrival)
        q.enter(message, self._memory.clock.now())
        q.let_go(key, message.id, self._memory.clock.now())
