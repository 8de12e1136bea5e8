"""Mutants of who works on a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from bee_core.stored import Holder
from bee_memory import MemoryBroker

replace = msgspec.structs.replace


class _Announcing(MemoryBroker):
    """A broker that hears something else than what was announced."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        await super().announce(queue, holder, about=about, duration=duration)
        self.after(queue, holder)

    def after(self, queue: str, holder: str) -> None:
        """Anything that happens after."""


class NobodyIsThere(MemoryBroker):
    """Who announces itself is not listed."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        return [
            replace(w, since=None, until=None, about="")
            for w in await super().workers(queue)
            if w.leases
        ]


class OnlyTheAnnouncedAreThere(MemoryBroker):
    """Who holds leases and has not announced itself is not listed."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        return [w for w in await super().workers(queue) if w.until is not None]


class LeasesOfTheAnnouncedAreHidden(MemoryBroker):
    """Of one that has announced itself it is not shown what it holds."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        found = await super().workers(queue)
        return [replace(w, leases=0, leased_until=None) if w.until else w for w in found]


class AlwaysNew(_Announcing):
    """Who announces itself again is there since then."""

    def after(self, queue: str, holder: str) -> None:
        said = self._open(queue).announced.get(holder)
        if said is not None:
            said.since = self._memory.clock.now()


class FirstWordsCount(MemoryBroker):
    """What was said first stays."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        said = self._open(queue).announced.get(holder)
        about = about if said is None else said.about
        await super().announce(queue, holder, about=about, duration=duration)


class FirstTimeCounts(MemoryBroker):
    """An announcement is not prolonged."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        said = self._open(queue).announced.get(holder)
        await super().announce(queue, holder, about=about, duration=duration)
        if said is not None and duration:
            self._open(queue).announced[holder].until = said.until


class NobodyIsEverGone(MemoryBroker):
    """An announcement does not run out."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        long = duration * 1e6 if duration > 0 else duration
        await super().announce(queue, holder, about=about, duration=long)


class NobodyLeaves(MemoryBroker):
    """Who says that it is gone stays until its announcement runs out."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        if duration or holder not in self._open(queue).announced:
            await super().announce(queue, holder, about=about, duration=duration)


class EverybodyLeaves(_Announcing):
    """When one leaves, all are gone."""

    def after(self, queue: str, holder: str) -> None:
        q = self._open(queue)
        if holder not in q.announced:
            q.announced.clear()


class TheLastOneIsThere(_Announcing):
    """Only one is remembered."""

    def after(self, queue: str, holder: str) -> None:
        q = self._open(queue)
        q.announced = {name: said for name, said in q.announced.items() if name == holder}


class ReturnedAsIfNeverGone(MemoryBroker):
    """One that was silent for too long comes back as if it had been there all the time."""

    _first: ClassVar[dict[str, float]] = {}

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        await super().announce(queue, holder, about=about, duration=duration)
        said = self._open(queue).announced.get(holder)
        if said is not None:
            said.since = self._first.setdefault(f"{queue}/{holder}/{id(self._memory)}", said.since)


class AnnouncedEverywhere(MemoryBroker):
    """Who works on one queue is listed for all."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        found = {w.name: w for w in await super().workers(queue)}
        for name in list(self._memory.queues):
            found |= {w.name: w for w in await super().workers(name) if w.until}
        return [found[name] for name in sorted(found)]


class AnnouncementMakesAQueue(MemoryBroker):
    """A queue is listed because somebody works on it."""

    async def queues(self) -> Sequence[str]:
        working = [name for name, q in self._memory.queues.items() if q.announced]
        return sorted({*await super().queues(), *working})


class DropKeepsWorkers(MemoryBroker):
    """A queue that is dropped keeps its announcements."""

    async def drop(self, queue: str) -> None:
        announced = self._open(queue).announced
        await super().drop(queue)
        self._open(queue).announced = announced


class ListedAsTheyCame(MemoryBroker):
    """Workers are listed in the order in which they announced themselves."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        order = list(self._open(queue).announced)
        found = await super().workers(queue)
        return sorted(found, key=lambda w: order.index(w.name) if w.name in order else -1)


class AnythingIsAnAnnouncement(MemoryBroker):
    """What is said may be anything."""

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        text = str(about)[:2000].encode(errors="replace").decode()
        await super().announce(queue, holder, about=text, duration=duration)
