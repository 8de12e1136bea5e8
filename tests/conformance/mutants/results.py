"""Mutants of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bee_core.checks import check_ids, check_settlement
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Draft, Note, Receipt, Report, Sent, Settlement
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class _Kept(MemoryBroker):
    """What is kept of an end is something else, or kept for another time."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        raise NotImplementedError

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        now, end_kept = self._memory.clock.now(), end
        end_kept, keep = self.kept(q, message, disposition, end, keep)
        rings = super()._dispose(q, message, disposition, end)
        if keep and isinstance(disposition, Delete | Archive):
            q.keep(end_kept, now + keep, now)
        return rings


class ResultsStayForEver(_Kept):
    """What is kept never goes."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, keep and 1e8


class ResultsOfTheDeletedAreLost(_Kept):
    """Of a message that is deleted nothing is kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, 0.0 if isinstance(disposition, Delete) else keep


class ResultsOfTheArchivedAreLost(_Kept):
    """Of a message that is archived nothing is kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, 0.0 if isinstance(disposition, Archive) else keep


class OnlySuccessIsKept(_Kept):
    """A failure is not kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, 0.0 if end.note.reason == "failed" else keep


class OnlySomethingIsKept(_Kept):
    """An end of which nothing came is not kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, keep if end.result else 0.0


class LongResultsAreCut(_Kept):
    """Of a large result only the beginning is kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return replace(end, result=end.result[:65_536]), keep


class EverythingIsKept(_Kept):
    """Every end is kept for a while, whether it was asked for or not."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, keep or 60.0


class FirstEndIsKept(_Kept):
    """Of an id that ends twice the first end is kept."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        return end, 0.0 if message.id in q.results else keep


class UnkeptEndForgetsTheLast(_Kept):
    """An end that is not to be kept takes away the one before it."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        if not keep:
            q.results.pop(message.id, None)
        return end, keep


class LongestTimeCounts(_Kept):
    """An end is kept for as long as any end of that id was to be."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        until, _ = q.results.get(message.id, (0.0, end))
        return end, keep and max(keep, until - self._memory.clock.now())


class ShortestTimeCounts(_Kept):
    """An end goes when the one before it would have gone."""

    def kept(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float
    ) -> tuple[Report, float]:
        until, _ = q.results.get(message.id, (1e12, end))
        return end, keep and min(keep, until - self._memory.clock.now())


class RepeatsAreKept(MemoryBroker):
    """What came of a run that is to be repeated is kept."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        now = self._memory.clock.now()
        if keep and isinstance(disposition, Reschedule):
            q.keep(end, now + keep, now)
        return super()._dispose(q, message, disposition, end, keep)


class LostLeasesAreKept(MemoryBroker):
    """What came of a lease that was taken over is kept."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost = set(await super().settle(queue, settlements))
        q, now = self._open(queue), self._memory.clock.now()
        for one in settlements:
            if one.receipt in lost and one.keep and one.note is None:
                q.keep(Report(one.receipt.id, Note("ruled"), one.result), now + one.keep, now)
        return lost


class DropLeavesTheResults(MemoryBroker):
    """What was kept of a dropped queue is still there."""

    async def drop(self, queue: str) -> None:
        results = self._open(queue).results
        await super().drop(queue)
        self._open(queue).results = results


class PruneTakesTheResults(MemoryBroker):
    """What was kept of a message goes when it is pruned."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        self._open(queue).results.clear()
        return await super().prune(queue, older_than=older_than, keep=keep, limit=limit)


class SendTakesTheResult(MemoryBroker):
    """What was kept of an id goes when it is sent again."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        q.results.pop(draft.id, None)
        return super()._send(q, draft)


class ResultsOfAllQueues(MemoryBroker):
    """What was kept in one queue is found in every other."""

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        found = dict(await super().results(queue, ids))
        for name in list(self._memory.queues):
            found.update(await super().results(name, ids))
        return found


class OneUnknownIdSpoilsThemAll(MemoryBroker):
    """If of one id nothing is kept, nothing is found of any."""

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        found = await super().results(queue, ids)
        return found if len(found) == len(set(ids)) else {}


class ResultIsNotChecked(MemoryBroker):
    """A bad result is found out when half is done."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        for settlement in settlements:
            check_settlement(replace(settlement, result=b"", keep=0.0))
        lost: set[Receipt] = set()
        for settlement in settlements:
            lost |= await super().settle(queue, [settlement])
        return lost


class ResultsOutliveTheBroker(MemoryBroker):
    """A closed broker still gives results."""

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        closed, self._closed = self._closed, False
        try:
            return await super().results(queue, ids)
        finally:
            self._closed = closed


class AnyIdHasResults(MemoryBroker):
    """A bad id has no results, and no error."""

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        try:
            check_ids(ids)
        except ValueError:
            return {}
        return await super().results(queue, ids)
