"""Mutants of the archive: what goes in, what comes back, what is cleared."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bee_core.disposition import Archive, Terminal
from bee_core.message import ZERO
from bee_core.stored import State
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue


class _Archived(MemoryBroker):
    """What goes into the archive is changed on its way."""

    def change(self, message: Message) -> None:
        raise NotImplementedError

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        self.change(message)
        super()._keep_if_archived(q, message, to)


class ArchiveLosesTheBody(_Archived):
    """An archived message is empty."""

    def change(self, message: Message) -> None:
        message.body = b""


class ArchiveLosesTheHeaders(_Archived):
    """An archived message has no headers."""

    def change(self, message: Message) -> None:
        message.headers = {}


class ArchiveLosesTheNote(_Archived):
    """An archived message does not say why."""

    def change(self, message: Message) -> None:
        message.note = None


class ArchiveLosesTheCounters(_Archived):
    """An archived message has no history."""

    def change(self, message: Message) -> None:
        message.counters = ZERO


class ArchivedWhenItWasSent(MemoryBroker):
    """An archived message bears the wrong time."""

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        if isinstance(to, Archive):
            stored = message.stored(State.ARCHIVED, message.sent_at)
            q.archive[message.id, message.incarnation] = stored


class ArchiveByIdOnly(MemoryBroker):
    """Archiving the second life of an id overwrites the first."""

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        if isinstance(to, Archive):
            for key in [key for key in q.archive if key[0] == message.id]:
                del q.archive[key]
        super()._keep_if_archived(q, message, to)


class RestoreKeepsTheCounters(MemoryBroker):
    """A restored message goes on with its old counters."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        q = self._open(queue)
        old = {id: q.archived(id) for id in ids}
        missing = await super().restore(queue, ids)
        for id, stored in old.items():
            if stored is not None and id not in missing:
                q.live[id].counters = stored.counters
        return missing


class RestoreKeepsTheIncarnation(MemoryBroker):
    """A restored message cannot be told from the archived one."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        q = self._open(queue)
        old = {id: q.archived(id) for id in ids}
        missing = await super().restore(queue, ids)
        for id, stored in old.items():
            if stored is not None and id not in missing:
                q.live[id].incarnation = stored.incarnation
        return missing


class RestoreLosesTheHeaders(MemoryBroker):
    """A restored message has no headers."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        missing = await super().restore(queue, ids)
        for id in set(ids) - missing:
            self._open(queue).live[id].headers = {}
        return missing


class RestoreCopies(MemoryBroker):
    """A restored message stays in the archive too."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        q = self._open(queue)
        archive = dict(q.archive)
        missing = await super().restore(queue, ids)
        q.archive.update(archive)
        return missing


class RestoreTakesTheOldest(MemoryBroker):
    """Of two lives of an id the one archived first is restored."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        q = self._open(queue)
        q.archive = dict(reversed(q.archive.items()))
        missing = await super().restore(queue, ids)
        q.archive = dict(reversed(q.archive.items()))
        return missing


class RestoreOverwritesTheLive(MemoryBroker):
    """Restoring an id that is live again destroys the live message."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        q = self._open(queue)
        for id in ids:
            if q.archived(id):
                q.live.pop(id, None)
        return await super().restore(queue, ids)


class PruneIgnoresKeep(MemoryBroker):
    """Pruning takes the newest too."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        return await super().prune(queue, older_than=older_than, limit=limit)


class PruneIgnoresAge(MemoryBroker):
    """Pruning takes the young too."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        return await super().prune(queue, older_than=older_than and 1.0, keep=keep, limit=limit)


class PruneIgnoresItsLimit(MemoryBroker):
    """Pruning does not stop."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        return await super().prune(queue, older_than=older_than, keep=keep)


class PruneTakesTheNewest(MemoryBroker):
    """Pruning begins at the wrong end."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        q = self._open(queue)
        q.archive = dict(reversed(q.archive.items()))
        pruned = await super().prune(queue, older_than=older_than, keep=keep, limit=limit)
        q.archive = dict(reversed(q.archive.items()))
        return pruned
