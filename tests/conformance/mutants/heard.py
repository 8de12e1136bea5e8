"""Mutants of what was heard: how it is read, how long it stays, what is not sent again for it."""

from __future__ import annotations

from collections.abc import Sequence

from bee_core.checks import check_id, check_whole
from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import Draft, Report, Sent
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue


class ReportsAreSortedByTheAlphabet(MemoryBroker):
    """Reports are listed as in a dictionary, not by code points."""

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        check_id(id)
        check_whole(limit, "limit", least=1)
        found = self._open(queue).reports.get(id, {})
        order = sorted(found, key=lambda child: (child.casefold(), child))
        behind = [child for child in order if (child.casefold(), child) > (after.casefold(), after)]
        return [found[child] for child in behind][:limit]


class ReportsAreSortedAsUtf16(MemoryBroker):
    """Reports are listed by the units of UTF-16."""

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        def units(text: str) -> bytes:
            return text.encode("utf-16-be")

        check_id(id)
        check_whole(limit, "limit", least=1)
        found = self._open(queue).reports.get(id, {})
        order = [child for child in sorted(found, key=units) if units(child) > units(after)]
        return [found[child] for child in order][:limit]


class ReportPagesOverlap(MemoryBroker):
    """The last report of a page is the first of the next."""

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        behind = list(await super().reports(queue, id, after=after, limit=limit))
        last = self._open(queue).reports.get(id, {}).get(after)
        return behind if last is None or not behind else [last, *behind][:limit]


class ReportsKnowNoLimit(MemoryBroker):
    """All reports are listed, however few were asked for."""

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        await super().reports(queue, id, limit=limit)
        return await super().reports(queue, id, after=after)


class _Remembered(MemoryBroker):
    """What was heard outlives who heard it, now and then."""

    def outlives(self, disposition: Disposition, message: Message) -> bool:
        raise NotImplementedError

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        heard = dict(q.reports.get(message.id, {}))
        rings = super()._dispose(q, message, disposition, end, keep)
        if heard and self.outlives(disposition, message):
            q.reports[message.id] = heard
        return rings


class DeletedOneHasHeard(_Remembered):
    """What was reported to a message stays when it is deleted."""

    def outlives(self, disposition: Disposition, message: Message) -> bool:
        return isinstance(disposition, Delete) and message.token is not None


class CancelledOneHasHeard(_Remembered):
    """What was reported to a message stays when it is cancelled and deleted."""

    def outlives(self, disposition: Disposition, message: Message) -> bool:
        return isinstance(disposition, Delete) and message.token is None


class _Forgotten(MemoryBroker):
    """What was heard is forgotten too early."""

    def forgets(self, disposition: Disposition) -> bool:
        raise NotImplementedError

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        rings = super()._dispose(q, message, disposition, end, keep)
        if self.forgets(disposition):
            q.reports.pop(message.id, None)
        return rings


class RepeatedOneForgets(_Forgotten):
    """A message that is repeated has lost what was reported to it."""

    def forgets(self, disposition: Disposition) -> bool:
        return isinstance(disposition, Reschedule)


class ArchivedOneForgets(_Forgotten):
    """A message that is archived has lost what was reported to it."""

    def forgets(self, disposition: Disposition) -> bool:
        return isinstance(disposition, Archive)


class RestoredOneForgets(MemoryBroker):
    """A message that is restored has lost what was reported to it."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        missing = set(await super().restore(queue, ids))
        for id in set(ids) - missing:
            self._open(queue).reports.pop(id, None)
        return missing


class RestoredOneAwaitsNothing(MemoryBroker):
    """A message that is restored hears nothing more."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        missing = set(await super().restore(queue, ids))
        for id in set(ids) - missing:
            self._open(queue).live[id].awaits = 0
        return missing


class RestoredOneReportsToNobody(MemoryBroker):
    """A message that is restored does not report any more."""

    async def restore(self, queue: str, ids: Sequence[str]) -> set[str]:
        missing = set(await super().restore(queue, ids))
        for id in set(ids) - missing:
            self._open(queue).live[id].reports_to = None
        return missing


class PurgedOneHasHeard(MemoryBroker):
    """What was reported to a message stays when it is purged."""

    async def purge(self, queue: str) -> int:
        q = self._open(queue)
        heard = {id: dict(reports) for id, reports in q.reports.items()}
        purged = await super().purge(queue)
        q.reports.update(heard)
        return purged


class PrunedOneHasHeard(MemoryBroker):
    """What was reported to a message stays when it is pruned."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        q = self._open(queue)
        heard = {id: dict(reports) for id, reports in q.reports.items()}
        pruned = await super().prune(queue, older_than=older_than, keep=keep, limit=limit)
        q.reports.update(heard)
        return pruned


class PruneTakesWhatIsKept(MemoryBroker):
    """Pruning forgets what was reported to messages it leaves in the archive."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        q = self._open(queue)
        for id, _ in q.archive:
            q.reports.pop(id, None)
        return await super().prune(queue, older_than=older_than, keep=keep, limit=limit)


class DroppedQueueHasHeard(MemoryBroker):
    """What was reported in a queue stays when it is dropped."""

    async def drop(self, queue: str) -> None:
        reports = self._open(queue).reports
        await super().drop(queue)
        self._open(queue).reports = reports

    def _send(self, q: Queue, draft: Draft) -> Sent:
        heard = q.reports.get(draft.id)
        sent = super()._send(q, draft)
        if heard and sent is Sent.CREATED and q.created == 1:
            q.reports[draft.id] = heard
        return sent


class DeletingForgetsTheArchive(_Forgotten):
    """What was reported to a message goes with the next of its id, though it may be restored."""

    def forgets(self, disposition: Disposition) -> bool:
        return isinstance(disposition, Delete)


class PruningForgetsTheLive(MemoryBroker):
    """What was reported to a message goes when an older one of its id is pruned."""

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        q = self._open(queue)
        before = {id for id, _ in q.archive}
        pruned = await super().prune(queue, older_than=older_than, keep=keep, limit=limit)
        for id in before - {id for id, _ in q.archive}:
            q.reports.pop(id, None)
        return pruned


class SentAnewItHasHeard(MemoryBroker):
    """A message that is sent anew has what was reported to the one before it."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        heard = q.reports.get(draft.id)
        sent = super()._send(q, draft)
        if heard and sent is Sent.CREATED:
            q.reports[draft.id] = heard
        return sent


class SuccessorHasHeard(MemoryBroker):
    """A successor has what was reported to the message before it."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        heard = q.reports.get(message.id)
        rings = super()._dispose(q, message, disposition, end, keep)
        if heard and message.successor is not None and isinstance(disposition, Archive):
            q.reports[message.id] = heard
        return rings


class CancelledSuccessorTakesThemAlong(MemoryBroker):
    """When a successor is cancelled, what the message itself has heard is lost."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        q = self._open(queue)
        for id in ids:
            if id in q.live and q.live[id].successor is not None and not running:
                q.reports.pop(id, None)
        return set(await super().cancel(queue, ids, to=to, running=running))


class ReportedOnesAreSentAgain(MemoryBroker):
    """A message that has reported is created when it is sent again."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        heard = q.reports.get(draft.reports_to or "")
        report = heard.pop(draft.id, None) if heard else None
        sent = super()._send(q, draft)
        if heard is not None and report is not None:
            heard[draft.id] = report
        return sent


class ReportedOnesFollowAgain(MemoryBroker):
    """A message that has reported is created when it follows another, though not when sent."""

    _sending = False

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        self._sending = True
        try:
            return await super().send(queue, drafts)
        finally:
            self._sending = False

    def _send(self, q: Queue, draft: Draft) -> Sent:
        heard = None if self._sending else q.reports.get(draft.reports_to or "")
        report = heard.pop(draft.id, None) if heard else None
        sent = super()._send(q, draft)
        if heard is not None and report is not None:
            heard[draft.id] = report
        return sent


class WhoeverHasHeardKeepsIt(MemoryBroker):
    """A message is not sent if anybody has heard of its end."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        if draft.id not in q.live and any(draft.id in heard for heard in q.reports.values()):
            return Sent.KEPT
        return super()._send(q, draft)


class TheArchiveKeepsIt(MemoryBroker):
    """A message is not sent if one in the archive has heard of its end."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        if draft.id not in q.live and draft.id in q.reports.get(draft.reports_to or "", {}):
            return Sent.KEPT
        return super()._send(q, draft)
