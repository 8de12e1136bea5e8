"""Mutants of reports: who tells whom, what, when, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import Draft, Note, Receipt, Report, Sent, Settlement
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class _Told(MemoryBroker):
    """A broker that tells something else, or nothing, when a message ends."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        raise NotImplementedError

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        self._telling = self.told(message, disposition, end)
        return super()._dispose(q, message, disposition, end, keep)

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        if self._telling is not None:
            super()._report(q, to, self._telling, now)


class DeletedOnesDoNotReport(_Told):
    """A message that is deleted reports nothing."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return None if isinstance(disposition, Delete) else end


class ArchivedOnesDoNotReport(_Told):
    """A message that is archived reports nothing."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return None if isinstance(disposition, Archive) else end


class CancelledOnesDoNotReport(_Told):
    """A message that is cancelled reports nothing."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return None if end.note.reason == "cancelled" else end


class FailuresDoNotReport(_Told):
    """A message that has failed reports nothing."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return None if end.note.reason == "failed" else end


class HeldOnesAreCancelledInSilence(_Told):
    """A message that is cancelled while it is held reports nothing."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return None if end.note.reason == "cancelled" and message.token is not None else end


class ReportHasNoResult(_Told):
    """What came of a message is not reported."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return replace(end, result=b"")


class ReportHasNoDetail(_Told):
    """Of the note only the reason is reported."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return replace(end, note=Note(end.note.reason))


class UnnotedEndIsASuccess(_Told):
    """An end without a note is reported as a success."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return end if message.note else replace(end, note=Note("succeeded"))


class LastNoteIsNotReported(_Told):
    """An end without a note of its own is reported as ruled, though there is an older note."""

    def told(self, message: Message, disposition: Disposition, end: Report) -> Report | None:
        return (
            end if end.result or end.note.reason != "failed" else replace(end, note=Note("ruled"))
        )


class RepeatedOnesReport(MemoryBroker):
    """A message that is to be repeated reports as if it had ended."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        if isinstance(disposition, Reschedule):
            self._report(q, message.reports_to, end, self._memory.clock.now())
        return rings


class LostLeasesReport(MemoryBroker):
    """Who settles a lease that was taken over reports all the same."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost = set(await super().settle(queue, settlements))
        q, now = self._open(queue), self._memory.clock.now()
        for settlement in settlements:
            message = q.live.get(settlement.receipt.id)
            if message is not None and settlement.receipt in lost:
                end = Report(message.id, settlement.note or Note("ruled"))
                self._report(q, message.reports_to, end, now)
        return lost


class PurgedOnesReport(MemoryBroker):
    """What is purged reports as if it had been cancelled."""

    async def purge(self, queue: str) -> int:
        q, now = self._open(queue), self._memory.clock.now()
        children = [m for m in q.live.values() if m.token is None and m.reports_to is not None]
        purged = 0
        for message in children:
            del q.live[message.id]
            self._report(q, message.reports_to, Report(message.id, Note("cancelled")), now)
            purged += 1
        return purged + await super().purge(queue)


class CancelledSuccessorsReport(MemoryBroker):
    """A successor that is cancelled reports so, though the message itself goes on."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        q, now = self._open(queue), self._memory.clock.now()
        for id in ids:
            message = q.live.get(id)
            if message is not None and message.successor is not None and not running:
                self._report(q, message.reports_to, Report(id, Note("cancelled")), now)
        return set(await super().cancel(queue, ids, to=to, running=running))


class TheDeadHear(MemoryBroker):
    """What is reported to a message that is not there is kept until it comes."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        if to is not None and to not in q.live:
            q.reports[to][end.id] = end
        super()._report(q, to, end, now)

    def _send(self, q: Queue, draft: Draft) -> Sent:
        early = q.reports.get(draft.id, {}) if draft.id not in q.live else {}
        sent = super()._send(q, draft)
        if early and q.archived(draft.id) is None:
            q.reports[draft.id] = early
        return sent


class EverybodyHears(MemoryBroker):
    """A message that awaits no reports gets them all the same."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        super()._report(q, to, end, now)
        if to is not None and to in q.live and not q.live[to].awaits:
            q.reports[to][end.id] = end


class ReportsGoToAllQueues(MemoryBroker):
    """A report goes to the message of that id in every queue."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        for each in list(self._memory.queues.values()):
            super()._report(each, to, end, now)


class LastReportWins(MemoryBroker):
    """A message that ends twice has its second report in place of the first."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        super()._report(q, to, end, now)
        if to is not None and end.id in q.reports.get(to, {}):
            q.reports[to][end.id] = end


class UpdateChangesWhomItReportsTo(MemoryBroker):
    """An update changes whom a message reports to."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        message.reports_to = arrival.draft.reports_to
        super()._merge(q, message, arrival)


class SuccessorReportsForTheFirst(MemoryBroker):
    """A successor reports to whom the message before it did."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        message = q.live.get(draft.id)
        if message is not None and message.successor is not None:
            old = message.successor.draft
            message.successor.draft = replace(old, reports_to=message.reports_to)
        return sent
