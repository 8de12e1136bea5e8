"""Mutants of `expel`: what goes that should stay, and what stays that should go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from bee_core.disposition import Archive, Delete
from bee_core.stored import Stored
from bee_memory import MemoryBroker
from bee_memory.state import Queue


class _Blind(MemoryBroker):
    """Does not look whether a message was changed in some way."""

    to: ClassVar[str]

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        if message is not None and seen.archived_at is None:
            current = getattr(message.stored(seen.state), self.to)
            seen = msgspec.structs.replace(seen, **{self.to: current})
        return super()._expel(q, seen, now)


class ExpelIgnoresTheBody(_Blind):
    """A message whose body was replaced goes."""

    to = "body"


class ExpelIgnoresTheHeaders(_Blind):
    """A message whose headers were replaced goes."""

    to = "headers"


class ExpelIgnoresThePriority(_Blind):
    """A message whose priority was changed goes."""

    to = "priority"


class ExpelIgnoresTheKey(_Blind):
    """A message whose key was changed goes."""

    to = "key"


class ExpelIgnoresTheTime(_Blind):
    """A message whose time was changed goes."""

    to = "due_at"


class ExpelIgnoresTheCounters(_Blind):
    """A message that was worked since, and stands where it was, goes."""

    to = "counters"


class ExpelGoesByTheId(_Blind):
    """Another life of an id goes for the one that was seen."""

    to = "incarnation"


class ExpelLooksAtTheState(MemoryBroker):
    """What has fallen due since it was seen stays."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        if seen.archived_at is None and message is not None and message.state(now) != seen.state:
            return False
        return super()._expel(q, seen, now)


class ExpelTakesWhatIsHeld(MemoryBroker):
    """A message goes though somebody has leased it."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        if message is not None and message.token is not None:
            del q.live[seen.id]
            return True
        return super()._expel(q, seen, now)


class ExpelTakesWhatRanOut(MemoryBroker):
    """A message goes though its holder may still settle it."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        if message is not None and message.token is not None and message.visible_at <= now:
            del q.live[seen.id]
            return True
        return super()._expel(q, seen, now)


class ExpelTakesEveryArchivedLife(MemoryBroker):
    """With one archived life of an id all of them go."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        gone = super()._expel(q, seen, now)
        if gone and seen.archived_at is not None:
            for place in [place for place in q.archive if place[0] == seen.id]:
                del q.archive[place]
        return gone


class ExpelTakesTheLastArchivedLife(MemoryBroker):
    """Of several archived lives of an id the last one goes, whichever was seen."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        last = q.archived(seen.id)
        if seen.archived_at is not None and last is not None:
            seen = last
        return super()._expel(q, seen, now)


class ExpelLeavesTheArchive(MemoryBroker):
    """An archived message is said to be gone, and stays."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        before = dict(q.archive)
        gone = super()._expel(q, seen, now)
        q.archive = before
        return gone


class ExpelReports(MemoryBroker):
    """What is expelled is reported as if it had ended."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        gone = super()._expel(q, seen, now)
        if gone and message is not None and seen.archived_at is None:
            self._report(q, message.reports_to, message.end(), now)
        return gone


class ExpelArchives(MemoryBroker):
    """What is expelled is found in the archive."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        gone = super()._expel(q, seen, now)
        if gone and message is not None and seen.archived_at is None:
            self._keep_if_archived(q, message, Archive())
        return gone


class ExpelKeepsReports(MemoryBroker):
    """What was reported to an expelled message stays."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        before = dict(q.reports.get(seen.id, {}))
        gone = super()._expel(q, seen, now)
        if before:
            q.reports[seen.id] = before
        return gone


class ExpelForgetsAllReports(MemoryBroker):
    """What another message of the id could still read goes, too."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        gone = super()._expel(q, seen, now)
        if gone:
            q.reports.pop(seen.id, None)
        return gone


class ExpelForgetsTheKey(MemoryBroker):
    """Those that wait for the key of an expelled message wait for good."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        parked = q.turns.parked
        q.turns.parked = defaultdict(list)
        gone = super()._expel(q, seen, now)
        q.turns.parked = parked
        return gone


class ExpelTakesTheSuccessor(MemoryBroker):
    """A message that is held, and stays, loses its successor."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        message = q.live.get(seen.id)
        if message is not None:
            message.successor = None
        return super()._expel(q, seen, now)


class ExpelUncounts(MemoryBroker):
    """What is expelled has never been created."""

    def _expel(self, q: Queue, seen: Stored, now: float) -> bool:
        gone = super()._expel(q, seen, now)
        if gone and seen.archived_at is None:
            q.created -= 1
        return gone


class ExpelSaysNothing(MemoryBroker):
    """What was left alone is not returned."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        await super().expel(queue, messages)
        return []


class ExpelIsAllOrNothing(MemoryBroker):
    """If one is not there, none goes."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        q = self._open(queue)
        live, archive = dict(q.live), dict(q.archive)
        left = await super().expel(queue, messages)
        if left:
            q.live, q.archive = live, archive
            return messages
        return left


class ExpelCancels(MemoryBroker):
    """Whatever has the id goes."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        left = await super().expel(queue, messages)
        missing = await self.cancel(queue, [one.id for one in left], to=Delete(), running=False)
        return [one for one in left if one.id in missing]


class ExpelEndsAPause(MemoryBroker):
    """A queue that is emptied is no longer paused."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        self._open(queue).paused = False
        return await super().expel(queue, messages)


class ExpelTakesAThousand(MemoryBroker):
    """The rest of a large batch stays, and nobody is told."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        return await super().expel(queue, messages[:1000])


class ExpelTakesLeases(MemoryBroker):
    """A message with a lease that ran out is looked for as if it had none."""

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        bare = [msgspec.structs.replace(m, token=None, leased_at=None) for m in messages]
        return await super().expel(queue, bare)
