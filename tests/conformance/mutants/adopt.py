"""Mutants of `adopt`: what is lost on the way, and what is taken in too easily."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bee_core.adoption import in_arrival
from bee_core.message import NO_REPORTS, ZERO, Report
from bee_core.stored import QueueStats, State, Stored
from bee_memory import MemoryBroker
from bee_memory.state import Queue


class _Changed(MemoryBroker):
    """What comes in is changed on its way."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        raise NotImplementedError

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        changed = msgspec.structs.replace(stored, **self.change(stored))
        return super()._adopt(q, changed, known, now)


class AdoptLosesTheCounters(_Changed):
    """An adopted message begins with counters of zero."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"counters": ZERO}


class AdoptLosesTheNote(_Changed):
    """An adopted message does not say why it was repeated."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"note": None}


class AdoptLosesTheHistory(_Changed):
    """An adopted message has no past."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"history": ()}


class AdoptKeepsNineEpisodes(_Changed):
    """The first episode of a full history is lost."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"history": stored.history[-9:]}


class AdoptLosesTheHeaders(_Changed):
    """An adopted message has no headers."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"headers": {}}


class AdoptLosesThePriority(_Changed):
    """An adopted message is as urgent as any."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"priority": 0}


class AdoptLosesTheKey(_Changed):
    """An adopted message waits for nobody."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"key": None}


class AdoptLosesTheProgress(_Changed):
    """How far it was is forgotten."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"progress": None}


class AdoptLosesTheHolder(_Changed):
    """Who held it last is forgotten."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"holder": None}


class AdoptAwaitsNobody(_Changed):
    """An adopted message waits for no report."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"awaits": 0}


class AdoptReportsToNobody(_Changed):
    """An adopted message tells nobody how it ends."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"reports_to": None}


class AdoptedIsDueNow(_Changed):
    """An adopted message stands behind what was sent meanwhile, and a delay is over."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"due_at": self._memory.clock.now()}


class AdoptedIsSentNow(_Changed):
    """When it was sent is forgotten."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"sent_at": self._memory.clock.now()}


class AdoptedIsArchivedNow(_Changed):
    """An archived message is young again."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        return {"archived_at": stored.archived_at and self._memory.clock.now()}


class AdoptedIsLocatedByItsState(_Changed):
    """What was delayed stays so for a day, though it has fallen due on its way."""

    def change(self, stored: Stored) -> Mapping[str, Any]:
        late = stored.state is State.DELAYED and stored.due_at <= self._memory.clock.now()
        return {"due_at": stored.due_at + 86_400} if late else {}


class AdoptReplacesWhatIsLive(MemoryBroker):
    """A live message gives way to an adopted one of its id."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        if stored.archived_at is None:
            q.live.pop(stored.id, None)
        return super()._adopt(q, stored, known, now)


class AdoptTakesTheArchiveTwice(MemoryBroker):
    """An archived message that is here already is taken in again."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        return super()._adopt(q, stored, set(), now)


class AdoptKnowsTheArchiveById(MemoryBroker):
    """Of one id only one archived message is taken in."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        if stored.archived_at is not None and q.archived(stored.id) is not None:
            return False
        return super()._adopt(q, stored, known, now)


class AdoptKnowsTheArchiveByOneMoment(MemoryBroker):
    """Of two that were archived at one moment the second is taken for the first."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        moments = {(kept.id, kept.archived_at) for kept in q.archive.values()}
        if (stored.id, stored.archived_at) in moments:
            return False
        return super()._adopt(q, stored, known, now)


class AdoptKeepsTheIncarnation(MemoryBroker):
    """An adopted message goes on under the number that it had elsewhere."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        taken = super()._adopt(q, stored, known, now)
        if taken and stored.archived_at is None:
            q.live[stored.id].incarnation = stored.incarnation
        return taken


class AdoptLeavesWhatHasReported(MemoryBroker):
    """One whose end was reported is not taken in, as if it were sent."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        if stored.reports_to in q.live and stored.id in q.reports[stored.reports_to]:
            return False
        return super()._adopt(q, stored, known, now)


class AdoptKeepsOldReports(MemoryBroker):
    """What was reported to an earlier life of an id counts for the adopted one."""

    def _adopt(self, q: Queue, stored: Stored, known: set[object], now: float) -> bool:
        before = dict(q.reports.get(stored.id, {}))
        taken = super()._adopt(q, stored, known, now)
        if before:
            q.reports[stored.id] = before
        return taken


class _Around(MemoryBroker):
    """Something goes wrong before or after the messages are taken in."""

    def before(self, q: Queue) -> None:
        """Nothing, if not said otherwise."""

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        """Nothing, if not said otherwise."""

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        q = self._open(queue)
        self.before(q)
        left = await super().adopt(queue, messages, reports=reports, beyond=beyond)
        self.after(q, messages, left)
        return left


class AdoptWakesNobody(_Around):
    """Who waits does not hear of what was adopted."""

    def before(self, q: Queue) -> None:
        self._bells, q.bells = q.bells, deque()

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        q.bells = self._bells


class AdoptEndsAPause(_Around):
    """What was adopted is worked although the queue is paused."""

    def before(self, q: Queue) -> None:
        q.paused = False


class AdoptCountsTheArchive(_Around):
    """An archived message counts as created here."""

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        q.created += sum(one.archived_at is not None for one in messages if one not in left)


class AdoptDoesNotCount(_Around):
    """An adopted message has never begun here, and will have ended."""

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        q.created -= sum(one.archived_at is None for one in messages if one not in left)


class AdoptedIsTheNewestOfTheArchive(_Around):
    """An archived message that comes late is taken for the last that was archived."""

    def before(self, q: Queue) -> None:
        self._known = set(q.archive)

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        for place in [place for place in q.archive if place not in self._known]:
            q.archive[place] = q.archive.pop(place)


class AdoptSaysNothing(_Around):
    """Not even what was not taken in is returned."""

    async def adopt(self, queue: str, messages: Sequence[Stored], **options: Any) -> list[Stored]:
        await super().adopt(queue, messages, **options)
        return []


class _Asked(MemoryBroker):
    """What is asked for is changed before anything is done."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        raise NotImplementedError

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        return await super().adopt(queue, self.ask(messages, options), **options)


class AdoptNumbersBackwards(_Asked):
    """The last of several that are due at one moment comes first."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        return messages[::-1]


class AdoptNumbersTheArchiveInItsOrder(_Asked):
    """Of several that were archived at one moment the last becomes the newest."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        kept = [one for one in messages if one.archived_at is not None]
        return [one for one in messages if one.archived_at is None] + kept[::-1]


class AdoptTakesAThousand(_Asked):
    """The rest of a large batch is left behind, and nobody is told."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        return messages[:1000]


class AdoptTakesLeases(_Asked):
    """A message whose lease ran out is taken in as if it had none."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        lease: dict[str, Any] = {"token": None, "leased_at": None, "leased_until": None}
        return [msgspec.structs.replace(one, **lease) for one in messages]


class AdoptGivesNoHeedToTokens(_Asked):
    """Tokens go on as if nothing had come from elsewhere."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        options["beyond"] = min(options.get("beyond", 0), 0)
        return messages


class AdoptPutsTokensBack(_Asked):
    """Tokens go back to where those of the other store were."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        beyond = options.get("beyond", 0)
        if isinstance(beyond, int) and beyond > 0:
            self._memory.token = min(self._memory.token, beyond)
        return messages


class AdoptRaisesTokensBeforeItLooks(_Asked):
    """A call that is refused has raised the tokens."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        beyond = options.get("beyond", 0)
        if isinstance(beyond, int):
            self._memory.token = max(self._memory.token, beyond)
        return messages


class AdoptForgetsReports(_Around):
    """What was reported to a message stays behind."""

    def after(self, q: Queue, messages: Sequence[Stored], left: Sequence[Stored]) -> None:
        for message in messages:
            q.reports.pop(message.id, None)


class AdoptTakesTheLastReport(_Asked):
    """Of two reports of one the second counts."""

    def ask(self, messages: Sequence[Stored], options: dict[str, Any]) -> Sequence[Stored]:
        told = options.get("reports", {})
        options["reports"] = {id: list(heard)[::-1] for id, heard in told.items()}
        return messages


class AdoptChecksOneByOne(MemoryBroker):
    """What stands in front of a message that cannot be is taken in."""

    async def adopt(self, queue: str, messages: Sequence[Stored], **options: Any) -> list[Stored]:
        left: list[Stored] = []
        for n in in_arrival(messages):
            left += await super().adopt(queue, [messages[n]])
        await super().adopt(queue, [], **options)
        return left


class AdoptedReportsMakeNobodyDue(MemoryBroker):
    """The last report that a message awaits changes nothing if it comes from elsewhere."""

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        left = await super().adopt(queue, messages)
        q = self._open(queue)
        due = {message.id: message.due for message in q.live.values()}
        await super().adopt(queue, [], **options)
        for message in q.live.values():
            if message.due != due[message.id]:
                message.due = due[message.id]
                q.enter(message, self._memory.clock.now())
        return left


class AdoptedReportsMakeAllDue(MemoryBroker):
    """One that was delivered before, and waits for its next time, is due when reports come."""

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        left = await super().adopt(queue, messages, **options)
        q, now = self._open(queue), self._memory.clock.now()
        for id in options.get("reports", {}):
            message = q.live.get(id)
            if message is None or message.token is not None or not message.awaits:
                continue
            if len(q.reports[id]) >= message.awaits:
                message.due = now
                q.enter(message, now)
        return left


class AdoptKeepsReportsToNobody(MemoryBroker):
    """What was reported to a message that is not here waits for it."""

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        left = await super().adopt(queue, messages, **options)
        for id, told in options.get("reports", {}).items():
            for report in told:
                self._open(queue).reports[id].setdefault(report.id, report)
        return left


class StatsTellNoToken(MemoryBroker):
    """How far the tokens are is not told."""

    async def stats(self, queue: str) -> QueueStats:
        return msgspec.structs.replace(await super().stats(queue), token=0)


class GetTellsNoToken(MemoryBroker):
    """By which lease a message is held is not told."""

    async def get(self, queue: str, id: str) -> Stored | None:
        found = await super().get(queue, id)
        return None if found is None else msgspec.structs.replace(found, token=None)
