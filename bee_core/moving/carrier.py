"""Carries messages of one queue from one store to another, a batch at a time.

A copy is made before anything is deleted, and only what was copied is deleted, exactly as it was
seen. So whatever happens between any two steps, nothing is lost, and to begin again is all that is
needed to go on. How a whole queue is moved is in `move.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from bee_core.codec import KIND_HEADER
from bee_core.disposition import Reschedule
from bee_core.errors import InvalidInput
from bee_core.message import Counters, Note, Receipt, Report, Settlement
from bee_core.moving.sides import Side
from bee_core.stored import Page, State, Stored
from bee_core.ticks import SCHEDULE

PAGE_OF_REPORTS = 1000
FIRST_PAGE = 50
ROOM = 8 << 20
"""Bytes of bodies, more or less, that are held at once: large jobs make small batches."""
SHOWN = 20
"""As many ids of each trouble are kept, for people."""
_SAME_MOMENT = 0.001
"""Two stores may round one moment differently."""


class Tally:
    """What has become of the messages of a queue so far."""

    def __init__(self) -> None:
        self.moved = 0
        """At the destination, and no longer at the source."""
        self.already = 0
        """Of these, those that were at the destination before."""
        self.gone = 0
        """Of these, those that somebody else has ended or moved as they were copied."""
        self.doubled: list[str] = []
        """Changed at the source as they were copied, and begun at the destination: both run."""
        self.conflicts: list[str] = []
        """Another message of that id is live at the destination."""
        self.refused: list[str] = []
        """The destination cannot hold them."""
        self.refusal = ""
        """Why, of the last one."""
        self.tied = 0
        """They belong to a group of which something stays at the source."""

    def begin_pass(self) -> None:
        """What stays is counted anew, each time that all of the source is looked through."""
        self.conflicts, self.refused, self.tied = [], [], 0

    @property
    def staying(self) -> int:
        """Those that could not be moved, of the last pass."""
        return len(self.conflicts) + len(self.refused) + self.tied


class Carrier:
    """Carries messages of one queue, and knows what must not be torn apart."""

    def __init__(self, queue: str, source: Side, destination: Side, batch: int) -> None:
        self.tally = Tally()
        self._queue = queue
        self._source = source
        self._destination = destination
        self._batch = batch
        self._limit = min(batch, FIRST_PAGE)
        self._held_back: AbstractSet[str] = frozenset()
        self._moved: set[str] = set()  # those that await others, and have gone
        self._here: dict[str, bool] = {}  # whether others that are reported to wait at the source

    async def begin_pass(self, held_back: AbstractSet[str], beyond: int) -> None:
        """Forget what stayed. What reports to these ids may end at the source, so they stay.

        No token that the destination gives from now on is as low as `beyond`, though the source
        may hold nothing at all.
        """
        self.tally.begin_pass()
        self._held_back = held_back
        self._here = {}
        await self._destination.ask(
            "adopt", lambda: self._destination.store.adopt(self._queue, [], beyond=beyond)
        )

    async def pages(self, state: State, *, after: str | None = None) -> AsyncIterator[Page]:
        """All messages of the source in a state, page by page."""
        while True:
            page = await self.page(state, after)
            yield page
            if page.after is None:
                return
            after = page.after

    async def page(self, state: State, after: str | None, limit: int | None = None) -> Page:
        """One page of them: so many, or as many as there is room for."""
        most = self._limit if limit is None else limit
        page, _ = await self._source.ask(
            "scan", lambda: self._source.store.scan(self._queue, state, after=after, limit=most)
        )
        size = sum(len(message.body) for message in page.items)
        if size > ROOM:
            self._limit = max(1, len(page.items) * ROOM // size)
        elif len(page.items) >= self._limit:
            self._limit = min(self._batch, 2 * self._limit)
        return page

    async def take_over(self, messages: Sequence[Stored]) -> bool:
        """End leases that ran out, as a worker would that takes them over. Whether some had."""
        stalled = [
            Settlement(
                Receipt(message.id, message.token),
                Reschedule(front=True),
                Note("stalled", "its lease ran out"),
                counters=Counters(stalls=1),
            )
            for message in messages
            if message.token is not None
        ]
        if stalled:
            await self._source.ask(
                "settle", lambda: self._source.store.settle(self._queue, stalled)
            )
        return bool(stalled)

    async def get(self, id: str) -> Stored | None:
        """A message of the source."""
        found, _ = await self._source.ask("get", lambda: self._source.store.get(self._queue, id))
        return found

    async def carry(self, messages: Sequence[Stored]) -> None:
        """Move these, but for those that have to stay. What was reported to them goes along."""
        load: list[Stored] = []
        reports: dict[str, Sequence[Report]] = {}
        weight = 0
        for message in messages:
            if not await self._may_go(message):
                self.tally.tied += 1
                continue
            if message.awaits:
                there = await self._live_there(message.id)
                if there is None or _is_one_life(message, there):
                    reports[message.id] = await self._reports(message.id)
                    weight += len(reports[message.id])
                elif message.state is not State.ARCHIVED and not is_same(message, there):
                    self.tally.conflicts.append(message.id)
                    continue  # that one must not hear what was reported to this
            load.append(message)
            if weight >= self._batch:
                await self._move(load, reports)
                load, reports, weight = [], {}, 0
        if load:
            await self._move(load, reports)

    async def _may_go(self, message: Stored) -> bool:
        """Whether nobody will miss its report, or report to it in vain."""
        if message.state is State.ARCHIVED:
            return True
        if message.id in self._held_back:
            return False
        parent = message.reports_to
        if parent is None or parent in self._moved:
            return True
        if parent not in self._here:
            found = await self.get(parent)
            self._here[parent] = (
                found is not None and found.state is not State.ARCHIVED and found.awaits > 0
            )
        return not self._here[parent]

    async def _live_there(self, id: str) -> Stored | None:
        """The live message of that id at the destination."""
        found, _ = await self._destination.ask(
            "get", lambda: self._destination.store.get(self._queue, id)
        )
        return None if found is None or found.state is State.ARCHIVED else found

    async def _reports(self, id: str) -> Sequence[Report]:
        store, found, after = self._source.store, list[Report](), ""
        while True:
            page, _ = await self._source.ask(
                "reports",
                lambda: store.reports(self._queue, id, after=after, limit=PAGE_OF_REPORTS),  # noqa: B023
            )
            found += page
            if len(page) < PAGE_OF_REPORTS:
                return found
            after = page[-1].id

    async def _move(
        self, messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
    ) -> None:
        """Copy, see what is there, delete."""
        there = await self._copy(messages, reports)
        if not there:
            return
        refused, unheard = await self._source.ask(
            "expel", lambda: self._source.store.expel(self._queue, there)
        )
        left = {_life(message) for message in refused}
        for message in there:
            if _life(message) in left:
                await self._follow(message, unheard)
            else:
                self.tally.moved += 1
                if message.awaits and message.state is not State.ARCHIVED:
                    self._moved.add(message.id)

    async def _copy(
        self, messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
    ) -> list[Stored]:
        """Copy messages; return those that are at the destination now."""
        try:
            refused, _ = await self._destination.ask(
                "adopt",
                lambda: self._destination.store.adopt(self._queue, messages, reports=reports),
            )
        except InvalidInput as error:
            return await self._copy_apart(messages, reports, error)
        known = {_life(message) for message in refused}
        there = []
        for message in messages:
            if _life(message) in known and not await self._is_there(message):
                continue
            there.append(message)
        return there

    async def _copy_apart(
        self,
        messages: Sequence[Stored],
        reports: Mapping[str, Sequence[Report]],
        error: InvalidInput,
    ) -> list[Stored]:
        """The destination cannot hold one of them: find it, so that the others may go."""
        if len(messages) == 1:
            self.tally.refused.append(messages[0].id)
            self.tally.refusal = str(error)
            return []
        half = len(messages) // 2
        there = []
        for part in (messages[:half], messages[half:]):
            theirs = {m.id: reports[m.id] for m in part if m.id in reports}
            there += await self._copy(part, theirs)
        return there

    async def _is_there(self, message: Stored) -> bool:
        """Whether what the destination has under that id is this message; if not, it stays."""
        self.tally.already += 1
        if message.state is State.ARCHIVED:
            return True  # it was told by more than its id
        found, _ = await self._destination.ask(
            "get", lambda: self._destination.store.get(self._queue, message.id)
        )
        if found is not None and is_same(message, found):
            return True
        self.tally.already -= 1
        if found is not None and found.state is not State.ARCHIVED:
            self.tally.conflicts.append(message.id)
        return False  # if it is no longer live there, the next pass will do

    async def _follow(self, message: Stored, unheard: bool) -> None:
        """It was copied, but not deleted: see what became of it, and whether the copy may stay.

        One that is gone from the source may have been ended by somebody, or moved by another run,
        or by the call whose answer was lost. Its copy stays: better one too many than one lost.
        """
        found = await self.get(message.id)
        is_gone = found is None or found.incarnation != message.incarnation
        if is_gone or message.state is State.ARCHIVED:
            self.tally.moved += 1
            self.tally.gone += not unheard
            return
        copy = await self._live_there(message.id)
        if copy is not None and _is_untouched(message, copy):
            refused, again = await self._destination.ask(
                "expel", lambda: self._destination.store.expel(self._queue, [copy])
            )
            if not refused or again:
                return
        self.tally.doubled.append(message.id)


def is_same(message: Stored, found: Stored) -> bool:
    """Whether they are one message, or as good as one: the same id, and the same to do.

    A schedule is the same whatever its plan: there is to be one of it.
    """
    if found.state is State.ARCHIVED and not _at_once(message.sent_at, found.sent_at):
        return False
    if message.headers != found.headers:
        return False
    return message.body == found.body or message.headers.get(KIND_HEADER) == SCHEDULE


def _is_one_life(message: Stored, copy: Stored) -> bool:
    """Whether one is the other, moved: not only the same to do, but the same time it is done."""
    live = State.ARCHIVED not in (message.state, copy.state)
    return live and is_same(message, copy) and _at_once(copy.sent_at, message.sent_at)


def _is_untouched(message: Stored, copy: Stored) -> bool:
    """Whether nothing has happened to a copy since it was made."""
    return (
        _is_one_life(message, copy)
        and copy.state in (State.READY, State.DELAYED)
        and copy.token is None
        and copy.counters == message.counters
        and _at_once(copy.due_at, message.due_at)
    )


def _at_once(one: float, other: float) -> bool:
    return abs(one - other) < _SAME_MOMENT


def _life(message: Stored) -> tuple[str, int]:
    return message.id, message.incarnation
