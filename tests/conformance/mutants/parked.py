"""Mutants of those that wait for a key: forgotten, in the wrong order, in everybody's way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bee_core.disposition import Disposition
from bee_core.message import Lease, Report
from bee_core.stored import Page, QueueStats, State, Stored
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue
from bee_memory.turns import Turns

from .altered import Altered

replace = msgspec.structs.replace


class OnlyHoldersCallTheNext(Altered):
    """When the next of a key is cancelled or changed, the one behind it is not looked at."""

    class queue_kind(Queue):
        def let_go(self, key: str | None, id: str, now: float) -> None:
            if key is not None and id in self.turns.holders[key]:
                super().let_go(key, id, now)


class NobodyCallsTheNext(Altered):
    """A key that is let go is free, but those that wait for it are forgotten."""

    class queue_kind(Queue):
        def let_go(self, key: str | None, id: str, now: float) -> None:
            if key is not None:
                self.turns.let_go(key, id)


class UpdateCallsNobody(MemoryBroker):
    """When the next of a key is changed, the one behind it is not looked at."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        aside, key = None, message.key
        if key is not None and key not in q.turns.holders:
            aside = q.turns.parked.pop(key, None)
        super()._merge(q, message, arrival)
        if key is not None and aside:
            q.turns.parked[key] = aside


class NobodyIsCalledWhileAKeyIsHeld(Altered):
    """As long as somebody holds a key nobody else is looked at, though there is room."""

    class queue_kind(Queue):
        def unpark(self, key: str, now: float) -> None:
            if not self.turns.holders.get(key):
                super().unpark(key, now)


class TheLastIsTheNext(Altered):
    """Of those that wait for a key the last comes first."""

    class turns_kind(Turns):
        def next(self, key: str) -> Message | None:
            return _pick(self, key, lambda message: tuple(-one for one in message.place))


class NobodyIsUrgent(Altered):
    """Those that wait for a key come in the order of their times, whatever their priority."""

    class turns_kind(Turns):
        def next(self, key: str) -> Message | None:
            return _pick(self, key, lambda message: message.place[1:])


class AHeldKeyBlocksTheQueue(Altered):
    """While one waits for a key, all behind it wait with it."""

    class queue_kind(Queue):
        def first(self, now: float) -> Message | None:
            message = super().first(now)
            waiting = any(one.parked for one in self.live.values())
            return None if waiting else message


class PassedOverCountsAsTaken(Altered):
    """Those that are passed over use up the limit of the call."""

    @dataclass(slots=True, eq=False)
    class queue_kind(Queue):
        looks: float = field(default=float("inf"))

        def first(self, now: float) -> Message | None:
            self.looks -= 1
            return None if self.looks < 0 else Queue.first(self, now)

    async def lease(self, queue: str, *, limit: int, **how: Any) -> list[Lease]:
        q = self._open(queue)
        assert isinstance(q, self.queue_kind)
        q.looks = limit
        try:
            return list(await super().lease(queue, limit=limit, **how))
        finally:
            q.looks = float("inf")


class ChangedOneStaysAside(MemoryBroker):
    """One that waits for a key, and gets another, is not looked at again."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        aside = message.parked
        super()._merge(q, message, arrival)
        if aside and message.key is not None and message.due <= self._memory.clock.now():
            q.turns.park(message)


class KeyIsLetGoInSilence(MemoryBroker):
    """A key that is let go wakes nobody."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        return super()._dispose(q, message, disposition, end, keep) - (message.key is not None)


class PassedOverIsNotReady(MemoryBroker):
    """Stats do not count those that wait for a key."""

    async def stats(self, queue: str) -> QueueStats:
        stats = await super().stats(queue)
        aside = sum(message.parked for message in self._open(queue).live.values())
        return replace(stats, ready=stats.ready - aside)


class PassedOverIsDelayed(MemoryBroker):
    """One that waits for a key is shown as delayed."""

    async def get(self, queue: str, id: str) -> Stored | None:
        stored = await super().get(queue, id)
        message = self._open(queue).live.get(id)
        if stored is not None and message is not None and message.parked:
            return replace(stored, state=State.DELAYED)
        return stored


class PassedOverIsNotShown(MemoryBroker):
    """`scan` leaves out those that wait for a key."""

    def _in_state(self, q: Queue, state: State) -> Iterable[tuple[tuple[float | str, ...], Stored]]:
        for key, stored in super()._in_state(q, state):
            if state is State.ARCHIVED or not q.live[stored.id].parked:
                yield key, stored


class PassedOverIsShownAmongTheOthers(MemoryBroker):
    """`scan` shows those that wait for a key where they would stand without one."""

    def _in_state(self, q: Queue, state: State) -> Iterable[tuple[tuple[float | str, ...], Stored]]:
        for key, stored in super()._in_state(q, state):
            yield (0, *key[1:]) if state is State.READY else key, stored


class PassedOverIsShownOnEveryPage(MemoryBroker):
    """`scan` shows those that wait for a key at the end of every page."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        page = await super().scan(queue, state, after=after, limit=limit)
        shown = {stored.id for stored in page.items}
        aside = [
            message.stored(state)
            for message in self._open(queue).live.values()
            if message.parked and state is State.READY and message.id not in shown
        ]
        return Page([*page.items, *aside][:limit], page.after)


class PurgeLeavesThosePassedOver(MemoryBroker):
    """Purging leaves those that wait for a key."""

    async def purge(self, queue: str) -> int:
        q = self._open(queue)
        aside = {id: message for id, message in q.live.items() if message.parked}
        purged = await super().purge(queue)
        q.live.update(aside)
        return purged - len(aside)


def _pick(turns: Turns, key: str, order: Any) -> Message | None:
    """The next of a key, by an order of one's own."""
    waiting = {id(one): one for _, place, one in turns.parked.pop(key, []) if one.place == place}
    mine = sorted((one for one in waiting.values() if one.parked and one.key == key), key=order)
    for one in mine[1:]:
        turns.park(one)
    for one in mine[:1]:
        one.parked = False
        return one
    return None
