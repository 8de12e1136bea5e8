"""Mutants of the Inspector's verbs. For restore and prune see `archive`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bee_core.message import Counters
from bee_core.stored import Holder, Page, QueueStats, State, Stored
from bee_memory import MemoryBroker

replace = msgspec.structs.replace


class PurgeTakesTheLeased(MemoryBroker):
    """Purging deletes what somebody holds."""

    async def purge(self, queue: str) -> int:
        purged = await super().purge(queue)
        self._open(queue).live.clear()
        return purged


class PurgeTakesTheArchive(MemoryBroker):
    """Purging clears the archive."""

    async def purge(self, queue: str) -> int:
        self._open(queue).archive.clear()
        return await super().purge(queue)


class PurgeLeavesSuccessors(MemoryBroker):
    """Purging forgets what is blocked."""

    async def purge(self, queue: str) -> int:
        q = self._open(queue)
        blocked = {id: m.successor for id, m in q.live.items() if m.successor is not None}
        purged = await super().purge(queue)
        for id, successor in blocked.items():
            q.live[id].successor = successor
        return purged


class DropLeavesTheArchive(MemoryBroker):
    """A dropped queue still has its archive."""

    async def drop(self, queue: str) -> None:
        archive = self._open(queue).archive
        await super().drop(queue)
        self._open(queue).archive = archive


class DropLeavesThePause(MemoryBroker):
    """A dropped queue is still paused."""

    async def drop(self, queue: str) -> None:
        paused = self._open(queue).paused
        await super().drop(queue)
        self._open(queue).paused = paused


class DropLeavesTheLeased(MemoryBroker):
    """A dropped queue still holds what is held."""

    async def drop(self, queue: str) -> None:
        live = self._open(queue).live
        await super().drop(queue)
        q, now = self._open(queue), self._memory.clock.now()
        for message in live.values():
            if message.token is not None:
                q.live[message.id] = message
                q.order(message, now)


class DropTakesItsNamesakes(MemoryBroker):
    """Dropping a queue drops all whose names begin like its name."""

    async def drop(self, queue: str) -> None:
        for name in [name for name in self._memory.queues if name.startswith(queue)]:
            await super().drop(name)


class PauseIgnored(MemoryBroker):
    """A paused queue goes on giving."""

    async def pause(self, queue: str) -> None:
        self._open(queue)


class PauseDoesNotEnd(MemoryBroker):
    """A queue cannot be resumed."""

    async def resume(self, queue: str) -> None:
        self._open(queue)


class PauseStopsEverybody(MemoryBroker):
    """Pausing a queue pauses all of them."""

    async def pause(self, queue: str) -> None:
        await super().pause(queue)
        for name in [*self._memory.queues, "other"]:
            await super().pause(name)


class LapsedCountsAsLeased(MemoryBroker):
    """Stats count a lease that ran out as held."""

    async def stats(self, queue: str) -> QueueStats:
        stats = await super().stats(queue)
        q, now = self._open(queue), self._memory.clock.now()
        lapsed = sum(m.token is not None and m.visible_at <= now for m in q.live.values())
        return replace(stats, ready=stats.ready - lapsed, leased=stats.leased + lapsed)


class StatsForgetTheBlocked(MemoryBroker):
    """Stats do not count successors."""

    async def stats(self, queue: str) -> QueueStats:
        return replace(await super().stats(queue), blocked=0)


class StatsMeasureFromSending(MemoryBroker):
    """`oldest_due` counts from when the message was sent, not from when it was due."""

    async def stats(self, queue: str) -> QueueStats:
        stats = await super().stats(queue)
        q, now = self._open(queue), self._memory.clock.now()
        ready = [m.sent_at for m in q.live.values() if m.state(now) is State.READY]
        return replace(stats, oldest_due=now - min(ready) if ready else None)


class QueuesForgetTheArchive(MemoryBroker):
    """A queue that holds only an archive is not listed."""

    async def queues(self) -> Sequence[str]:
        return [name for name in await super().queues() if self._open(name).live]


class QueuesAreUnsorted(MemoryBroker):
    """Queues are listed in the order they came about."""

    async def queues(self) -> Sequence[str]:
        listed = set(await super().queues())
        return [name for name in self._memory.queues if name in listed]


class QueuesAreRemembered(MemoryBroker):
    """A queue that holds nothing any more is still listed."""

    async def queues(self) -> Sequence[str]:
        return sorted(self._memory.queues)


class LookingCounts(MemoryBroker):
    """Reading stats counts as a delivery."""

    async def stats(self, queue: str) -> QueueStats:
        for message in self._open(queue).live.values():
            message.counters += Counters(deliveries=1)
        return await super().stats(queue)


class ArchiveHidesTheLive(MemoryBroker):
    """`get` finds the archived message before the live one."""

    async def get(self, queue: str, id: str) -> Stored | None:
        return self._open(queue).archived(id) or await super().get(queue, id)


class LastArchivedIsLastBorn(MemoryBroker):
    """Of two archived lives `get` shows the later one, not the one archived last."""

    async def get(self, queue: str, id: str) -> Stored | None:
        found = await super().get(queue, id)
        if found is None or found.state is not State.ARCHIVED:
            return found
        lives = [stored for stored in self._open(queue).archive.values() if stored.id == id]
        return max(lives, key=lambda stored: stored.incarnation)


class SuccessorHidesTheLeased(MemoryBroker):
    """`scan` shows the successor of a held message in its place."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        page = await super().scan(queue, state, after=after, limit=limit)
        live = self._open(queue).live
        items = [
            successor.message().stored(state)
            if state is State.LEASED and (successor := live[stored.id].successor)
            else stored
            for stored in page.items
        ]
        return Page(items, page.after)


class PagesByNumber(MemoryBroker):
    """`scan` counts how many to skip, so that changes shift the pages."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        whole = await super().scan(queue, state, limit=100_000)
        start = int(after or "0")
        more = len(whole.items) > start + limit
        return Page(whole.items[start : start + limit], str(start + limit) if more else None)


class PagesOverlap(MemoryBroker):
    """`scan` shows the last message of a page again on the next."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        whole = await super().scan(queue, state, limit=100_000)
        start = int(after or "0")
        more = len(whole.items) > start + limit and limit > 1
        return Page(whole.items[start : start + limit], str(start + limit - 1) if more else None)


class DelayedOnesAreScannedByTimeAlone(MemoryBroker):
    """`scan` shows what falls due at the same time in the order it was sent."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        page = await super().scan(queue, state, after=after, limit=limit)
        if state is not State.DELAYED:
            return page
        return Page(sorted(page.items, key=lambda stored: stored.incarnation), page.after)


class ScanIsUnordered(MemoryBroker):
    """`scan` shows a page in the order of ids."""

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        page = await super().scan(queue, state, after=after, limit=limit)
        return Page(sorted(page.items, key=lambda stored: stored.id), page.after)


class WorkersIncludeTheDead(MemoryBroker):
    """Who let a lease run out is still listed."""

    async def workers(self, queue: str) -> Sequence[Holder]:
        held = [m for m in self._open(queue).live.values() if m.token is not None]
        names = sorted({message.holder or "" for message in held})
        return [
            Holder(name, len(mine), min(m.visible_at for m in mine))
            for name in names
            if (mine := [m for m in held if m.holder == name])
        ]
