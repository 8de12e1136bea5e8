"""Mutants of messages that await reports: when they are due, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from bee_core.disposition import Disposition, Terminal
from bee_core.message import Receipt, Report, Settlement
from bee_memory import MemoryBroker
from bee_memory.messages import Arrival, Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class DueOneReportTooEarly(MemoryBroker):
    """A message is due when all but one of the reports it awaits are there."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        message = q.live.get(to or "")
        if message is None or message.awaits < 2:
            return super()._report(q, to, end, now)
        message.awaits -= 1
        super()._report(q, to, end, now)
        message.awaits += 1
        return None


class ReportsMakeNothingDue(MemoryBroker):
    """A message that awaits reports is due when its delay is over, and not before."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        message = q.live.get(to or "")
        if message is not None:
            due, message.due = message.due, now
            super()._report(q, to, end, now)
            message.due = due


class EveryReportMakesItDue(MemoryBroker):
    """With every further report a message is due again."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        message = q.live.get(to or "")
        super()._report(q, to, end, now)
        if message is None or message.token is not None or message.due <= now:
            return
        if 0 < message.awaits < len(q.reports[message.id]):
            message.due = now
            q.enter(message, now)


class ReportsTakeItFromItsHolder(MemoryBroker):
    """The last report makes a message due though somebody holds it."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        super()._report(q, to, end, now)
        message = q.live.get(to or "")
        if message is None or message.token is None:
            return
        if message.awaits and len(q.reports[message.id]) == message.awaits:
            message.visible_at = now
            q.order(message, now)


class DueInItsOldPlace(MemoryBroker):
    """A message that its reports made due stands where it was sent."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        message = q.live.get(to or "")
        waits = message is not None and message.due > now
        super()._report(q, to, end, now)
        if message is not None and waits and message.due <= now:
            message.due, message.sequence = message.sent_at, message.incarnation
            q.enter(message, now)


class DueOnesAreMoved(MemoryBroker):
    """The last report sends a message that was due already to the back."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        super()._report(q, to, end, now)
        message = q.live.get(to or "")
        if message is None or message.token is not None or not message.awaits:
            return
        if len(q.reports[message.id]) == message.awaits:
            message.due, message.sequence = now, next(self._memory.sequence)
            q.enter(message, now)


class EveryRunCounts(MemoryBroker):
    """A message that ends twice counts as two."""

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        if to is not None and end.id in q.reports.get(to, {}):
            end = replace(end, id=f"{end.id} again")
        super()._report(q, to, end, now)


class ReportsWakeNobody(MemoryBroker):
    """The last report wakes nobody."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        return rings - (message.reports_to is not None)


class UpdateChangesWhatIsAwaited(MemoryBroker):
    """An update changes how many reports a message awaits."""

    def _merge(self, q: Queue, message: Message, arrival: Arrival) -> None:
        message.awaits = arrival.draft.awaits
        super()._merge(q, message, arrival)


class ReportsInSteps(MemoryBroker):
    """A settle that is cut short has ended the message, but nobody was told."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q = self._open(queue)
        told: list[tuple[str | None, Report]] = []
        self._told = told
        lost = set(await super().settle(queue, settlements))
        await asyncio.sleep(0)
        for to, end in told:
            super()._report(q, to, end, self._memory.clock.now())
        q.ring(len(told), self._memory.clock.now())
        return lost

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        self._told = None
        return set(await super().cancel(queue, ids, to=to, running=running))

    _told: list[tuple[str | None, Report]] | None = None

    def _report(self, q: Queue, to: str | None, end: Report, now: float) -> None:
        if self._told is None:
            super()._report(q, to, end, now)
        else:
            self._told.append((to, end))


class LastIsCountedTooEarly(MemoryBroker):
    """How many reports are there is looked up before the settlement, not in it."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q, now = self._open(queue), self._memory.clock.now()
        before = {id: len(heard) for id, heard in q.reports.items()}
        await asyncio.sleep(0)
        short = {}
        for id, message in q.live.items():
            missed = len(q.reports.get(id, {})) - before.get(id, 0)
            if missed > 0 and message.awaits:
                short[id] = message.awaits
                message.awaits += missed
        lost = set(await super().settle(queue, settlements))
        for id, awaits in short.items():
            if id in q.live:
                q.live[id].awaits = awaits
        q.ring(int(now > 0), now)
        return lost
