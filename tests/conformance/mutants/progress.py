"""Mutants of progress, of how many messages there have been, and of when a lease was taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bee_core.broker import NOTHING
from bee_core.disposition import Archive, Delete, Disposition, Terminal
from bee_core.message import Draft, Lease, Receipt, Report, Sent
from bee_core.stored import QueueStats
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue

from .altered import Altered

replace = msgspec.structs.replace


class _Saying(MemoryBroker):
    """A broker that hears something else than what was said."""

    def before(self, q: Queue, receipts: Sequence[Receipt], progress: Mapping[str, str]) -> None:
        """Anything that happens before."""

    def said(self, q: Queue, progress: Mapping[str, str]) -> Mapping[str, str]:
        return progress

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> set[Receipt]:
        q = self._open(queue)
        self.before(q, receipts, progress)
        said = self.said(q, progress)
        return set(
            await super().extend(queue, receipts, duration=duration, progress=said, remarks=remarks)
        )


class NobodyListens(_Saying):
    """What is said of a message is not kept."""

    def said(self, q: Queue, progress: Mapping[str, str]) -> Mapping[str, str]:
        return progress if any(not _short(text) for text in progress.values()) else {}


class FirstWordStays(_Saying):
    """What was said first of a message stays."""

    def said(self, q: Queue, progress: Mapping[str, str]) -> Mapping[str, str]:
        kept = {id: m.progress for id, m in q.live.items() if m.progress is not None}
        return {id: kept.get(id, text) for id, text in progress.items()}


class SilenceErases(_Saying):
    """What was said of a message goes when it is extended without a word."""

    def before(self, q: Queue, receipts: Sequence[Receipt], progress: Mapping[str, str]) -> None:
        for receipt in receipts:
            message = q.live.get(receipt.id)
            if message is not None and message.token == receipt.token and not progress:
                message.progress = None


class LostLeasesAreHeard(_Saying):
    """What a stale holder says counts."""

    def before(self, q: Queue, receipts: Sequence[Receipt], progress: Mapping[str, str]) -> None:
        for receipt in receipts:
            if receipt.id in q.live and receipt.id in progress and _short(progress[receipt.id]):
                q.live[receipt.id].progress = progress[receipt.id]


class EverybodyIsHeard(_Saying):
    """What is said of messages that are not extended counts too."""

    def before(self, q: Queue, receipts: Sequence[Receipt], progress: Mapping[str, str]) -> None:
        extended = {receipt.id for receipt in receipts}
        for id, text in progress.items():
            if id in q.live and id not in extended and _short(text):
                q.live[id].progress = text


class BadWordsComeTooLate(_Saying):
    """What cannot be said is found out when the leases are extended."""

    def before(self, q: Queue, receipts: Sequence[Receipt], progress: Mapping[str, str]) -> None:
        for receipt in receipts:
            if receipt.id in q.live and _short(progress.get(receipt.id)):
                q.live[receipt.id].progress = progress[receipt.id]


class WordsAreCut(_Saying):
    """Of what is said only so many bytes are kept."""

    def said(self, q: Queue, progress: Mapping[str, str]) -> Mapping[str, str]:
        if any(not _short(text) for text in progress.values()):
            return progress
        return {id: text.encode()[:200].decode(errors="ignore") for id, text in progress.items()}


class RepeatErasesProgress(MemoryBroker):
    """What was said of a message goes when it is repeated."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        message.progress = None
        super()._return(q, message, due, sequence)


class TakeOverErasesProgress(MemoryBroker):
    """What was said of a message goes when it is taken over."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        leases = await super().lease(queue, **how)
        for lease in leases:
            if lease.counters.stalls:
                self._open(queue).live[lease.receipt.id].progress = None
        return leases


class ArchiveErasesProgress(MemoryBroker):
    """What was said of a message goes when it is archived."""

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        message.progress = None
        super()._keep_if_archived(q, message, to)


class RestoreKeepsProgress(MemoryBroker):
    """A restored message is as far as it was."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        q = self._open(queue)
        old = {id: stored.progress for id in ids if (stored := q.archived(id))}
        missing = set(await super().restore(queue, ids))
        for id in set(ids) - missing:
            q.live[id].progress = old.get(id)
        return missing


class SuccessorIsAsFar(MemoryBroker):
    """A successor is as far as the message before it."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        if message.successor is not None and isinstance(disposition, Delete | Archive):
            q.live[message.id].progress = message.progress
        return rings


class CreatedIsWhatIsLive(MemoryBroker):
    """Messages that have ended do not count any more."""

    async def stats(self, queue: str) -> QueueStats:
        stats = await super().stats(queue)
        return replace(stats, created=stats.ready + stats.delayed + stats.leased)


class EverySendCreates(MemoryBroker):
    """A draft counts as created, whatever became of it."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        q.created += sent is not Sent.CREATED
        return sent


class UpdatesCreate(MemoryBroker):
    """A message that is changed counts as created."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        super()._merge(q, message, arrival)
        q.created += 1


class BlockedOnesAreCreated(MemoryBroker):
    """A successor counts as created before it is free."""

    async def stats(self, queue: str) -> QueueStats:
        stats = await super().stats(queue)
        return replace(stats, created=stats.created + stats.blocked)


class SuccessorsAreNotCreated(MemoryBroker):
    """A successor that is freed does not count."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        created = q.created
        rings = super()._dispose(q, message, disposition, end, keep)
        q.created = created
        return rings


class WhatFollowsIsNotCreated(Altered):
    """What follows another message does not count."""

    async def settle(self, queue: str, settlements: Sequence[Any]) -> set[Receipt]:
        q = self._open(queue)
        before = set(q.live)
        lost = set(await super().settle(queue, settlements))
        followed = {draft.id for one in settlements for draft in one.then}
        q.created -= len((set(q.live) - before) & followed)
        return lost


class RestoredOnesAreNotCreated(MemoryBroker):
    """A restored message does not count as created again."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        created = self._open(queue).created
        missing = set(await super().restore(queue, ids))
        self._open(queue).created = created
        return missing


class PurgedOnesWereNeverThere(MemoryBroker):
    """What is purged does not count any more."""

    async def purge(self, queue: str) -> int:
        q = self._open(queue)
        q.created -= sum(message.token is None for message in q.live.values())
        return await super().purge(queue)


class DropLeavesTheCount(MemoryBroker):
    """A dropped queue goes on counting."""

    async def drop(self, queue: str) -> None:
        created = self._open(queue).created
        await super().drop(queue)
        self._open(queue).created = created


class LeasedWhenSent(MemoryBroker):
    """A lease was taken when its message was sent."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        return [replace(one, leased_at=one.sent_at) for one in await super().lease(queue, **how)]


class LeasedWhenFirstLeased(MemoryBroker):
    """A lease that was taken over was taken when the first was."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        first: dict[str, float] = self.__dict__.setdefault("_first", {})
        leases = await super().lease(queue, **how)
        return [
            replace(one, leased_at=first.setdefault(one.receipt.id, one.leased_at))
            for one in leases
        ]


def _short(text: object) -> bool:
    return isinstance(text, str) and len(text) <= 200
