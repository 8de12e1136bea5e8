"""Mutants of the history of a message, and of what is remarked upon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from bee_core.broker import NOTHING
from bee_core.disposition import Delete, Disposition, Reschedule
from bee_core.message import Draft, Lease, Note, Receipt, Report, Settlement
from bee_core.stored import Episode, Stored
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class _Telling(MemoryBroker):
    """A broker that writes down something else than what happened when a lease is settled."""

    def told(self, message: Message, episode: Episode) -> Episode | None:
        return episode

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        q = self._open(queue)
        before = {id: len(message.history) for id, message in q.live.items()}
        lost = await super().settle(queue, settlements)
        for message in q.live.values():
            if message.history and len(message.history) > before.get(message.id, 0):
                told = self.told(message, message.history[-1])
                message.history = (*message.history[:-1], *([] if told is None else [told]))
        return lost


class NothingIsRemembered(_Telling):
    """A lease that ends by a settlement leaves no episode."""

    def told(self, message: Message, episode: Episode) -> Episode | None:
        return None


class SummaryIsDropped(_Telling):
    """The summary is not kept."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, summary="")


class EveryLeaseHasFailed(_Telling):
    """Every episode ends with "failed"."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, reason="failed")


class LastReasonIsRepeated(_Telling):
    """A lease that ends without a note has the reason of the one before."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, reason=message.note.reason if message.note else "ruled")


class NobodyHeldIt(_Telling):
    """An episode does not tell who held the message."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, holder="worker")


class LeasedWhenSent(_Telling):
    """An episode begins when the message was sent."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, leased_at=message.sent_at - 1)


class DueWhenItEnded(_Telling):
    """An episode says that the message was to be ready at once."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, due_at=episode.ended_at + 0.01)


class RemarksAreForgotten(_Telling):
    """What was remarked upon goes with the lease."""

    def told(self, message: Message, episode: Episode) -> Episode:
        return replace(episode, remark=None)


class RemarksStay(_Telling):
    """What was remarked upon stays with the message when the lease has ended."""

    def told(self, message: Message, episode: Episode) -> Episode:
        message.remark = episode.remark
        return episode


class NewestFirst(MemoryBroker):
    """Episodes stand in the order from the last to the first."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        q = self._open(queue)
        before = {id: message.history for id, message in q.live.items()}
        lost = await super().settle(queue, settlements)
        for id, message in q.live.items():
            if message.history and message.history != before.get(id):
                message.history = (message.history[-1], *message.history[:-1])
        return lost


class FirstEpisodesStay(MemoryBroker):
    """Of many episodes the first ones are kept."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        q = self._open(queue)
        before = {id: message.history for id, message in q.live.items()}
        lost = await super().settle(queue, settlements)
        for id, message in q.live.items():
            if len(before.get(id, ())) == 10 == len(message.history):
                message.history = before[id]
        return lost


class NothingIsEverForgotten(MemoryBroker):
    """All episodes are kept."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        q = self._open(queue)
        before = {id: message.history for id, message in q.live.items()}
        lost = await super().settle(queue, settlements)
        for id, message in q.live.items():
            if len(before.get(id, ())) >= 10 and message.history != before[id]:
                message.history = (*before[id], message.history[-1])
        return lost


class TakeOverIsNoEpisode(MemoryBroker):
    """A lease that is taken over leaves no episode."""

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        q = self._open(queue)
        before = {id: message.history for id, message in q.live.items()}
        leases = await super().lease(queue, **options)
        for lease in leases:
            q.live[lease.receipt.id].history = before[lease.receipt.id]
        return leases


class HeirIsBlamed(MemoryBroker):
    """A lease that is taken over is remembered as that of the one who took it over."""

    async def lease(self, queue: str, *, holder: str, **options: Any) -> Sequence[Lease]:
        q = self._open(queue)
        before = {id: message.history for id, message in q.live.items()}
        leases = await super().lease(queue, holder=holder, **options)
        for lease in leases:
            message = q.live[lease.receipt.id]
            if message.history != before[message.id]:
                message.history = (
                    *message.history[:-1],
                    replace(message.history[-1], holder=holder),
                )
        return leases


class MergedTakeOverIsForgotten(MemoryBroker):
    """A lease that is taken over, with a successor, leaves no episode."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        if (
            message.successor is not None
            and message.history[-1:]
            and (message.history[-1].reason == "stalled")
        ):
            message.history = message.history[:-1]
        super()._return(q, message, due, sequence)


class CancelIsNoEpisode(MemoryBroker):
    """A lease that is cancelled leaves no episode."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        if end.note == Note("cancelled"):
            message.history = message.history[:-1]
        return super()._dispose(q, message, disposition, end, keep)


class _Showing(MemoryBroker):
    """A broker that shows something else than what it keeps."""

    def stored(self, stored: Stored) -> Stored:
        return stored

    async def get(self, queue: str, id: str) -> Stored | None:
        found = await super().get(queue, id)
        return None if found is None else self.stored(found)


class ArchiveForgets(_Showing):
    """The archive keeps no history."""

    def stored(self, stored: Stored) -> Stored:
        return replace(stored, history=()) if stored.archived_at is not None else stored


class ArchivedIsStillLeased(_Showing):
    """An archived message shows when it was leased."""

    def stored(self, stored: Stored) -> Stored:
        return replace(stored, leased_at=1.0) if stored.archived_at is not None else stored


class LeasedAtIsHidden(_Showing):
    """Nothing shows when a message was leased."""

    def stored(self, stored: Stored) -> Stored:
        return replace(stored, leased_at=None)


class RestoreForgets(MemoryBroker):
    """A restored message begins without its history."""

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        missing = await super().restore(queue, ids)
        q = self._open(queue)
        for id in ids:
            if id not in missing:
                q.live[id].history = ()
        return missing


class SuccessorInherits(MemoryBroker):
    """A successor that becomes a fresh message goes on with the history of the one before."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        if message.successor is not None and not isinstance(disposition, Reschedule):
            q.live[message.id].history = message.history
        return rings


class UpdateForgets(MemoryBroker):
    """Changing a message that waits erases its history."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        message.history = ()
        super()._merge(q, message, arrival)


class LostSettlementIsRemembered(MemoryBroker):
    """A settlement that is lost leaves an episode."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        q = self._open(queue)
        lost = await super().settle(queue, settlements)
        for settlement in settlements:
            message = q.live.get(settlement.receipt.id)
            if settlement.receipt in lost and message is not None and message.token is not None:
                now = self._memory.clock.now()
                message.remember(settlement.note, Delete(), now, settlement.summary)
        return lost


class AnySummaryWillDo(MemoryBroker):
    """A summary may be of any length, and of many lines."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        short = [
            replace(s, summary=str(s.summary)[:200].replace("\n", " ").replace("\0", " "))
            for s in settlements
        ]
        return await super().settle(queue, short)


class _Remarking(MemoryBroker):
    """A broker that remarks on something else than what was said."""

    def said(self, q: Queue, remarks: Mapping[str, str]) -> Mapping[str, str]:
        return remarks

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        said = self.said(self._open(queue), remarks)
        return await super().extend(
            queue, receipts, duration=duration, progress=progress, remarks=said
        )


class FirstRemarkStays(_Remarking):
    """What was remarked first stays."""

    def said(self, q: Queue, remarks: Mapping[str, str]) -> Mapping[str, str]:
        return {id: q.live[id].remark or text for id, text in remarks.items() if id in q.live}


class RemarksAreShort(_Remarking):
    """Only the beginning of a remark is kept."""

    def said(self, q: Queue, remarks: Mapping[str, str]) -> Mapping[str, str]:
        long = {id for id, text in remarks.items() if isinstance(text, str) and len(text) <= 2000}
        return {id: text[:200] if id in long else text for id, text in remarks.items()}


class AnythingIsARemark(_Remarking):
    """A remark may be anything."""

    def said(self, q: Queue, remarks: Mapping[str, str]) -> Mapping[str, str]:
        texts = {id: str(text)[:2000] or " " for id, text in remarks.items()}
        return {id: text.encode(errors="replace").decode() for id, text in texts.items()}


class RemarkIsProgress(MemoryBroker):
    """A remark is taken for progress."""

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        lost = await super().extend(
            queue, receipts, duration=duration, progress=progress, remarks=remarks
        )
        q = self._open(queue)
        for id, text in remarks.items():
            if id in q.live:
                q.live[id].progress = text
        return lost


class LateRemarkCounts(MemoryBroker):
    """Who no longer holds a message may still remark on it."""

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        lost = await super().extend(
            queue, receipts, duration=duration, progress=progress, remarks=remarks
        )
        q = self._open(queue)
        for id, text in remarks.items():
            if id in q.live:
                q.live[id].remark = text
        return lost


class FreshOnesHaveAPast(MemoryBroker):
    """A message that is sent under an id which has ended begins with the history of that one."""

    def _send(self, q: Queue, draft: Draft) -> Any:
        old = q.archived(draft.id)
        sent = super()._send(q, draft)
        if old is not None and not q.live[draft.id].history:
            q.live[draft.id].history = tuple(old.history)
        return sent
