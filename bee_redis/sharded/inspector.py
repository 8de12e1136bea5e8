"""The operator's half: each verb over all parts, or on the one that an id says."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from bee_core.adoption import check_adopted, check_expelled
from bee_core.checks import check_id, check_ids, check_whole
from bee_core.duration import seconds
from bee_core.errors import InvalidOption, part_done
from bee_core.message import NO_REPORTS, Report
from bee_core.stored import Holder, Page, QueueStats, Server, State, Stored
from bee_redis.pages import MOST
from bee_redis.sharded.parts import check_ties, part_of, split
from bee_redis.sharded.session import ShardedSession
from bee_redis.sharded.together import together

_LOOKS = 5
"""Times that a queue which seems to be empty is looked at, until nothing has come meanwhile."""
_END = ""
"""The mark of a part of which `scan` has shown all."""


class ShardedInspector(ShardedSession):
    """Every verb of Inspector but `queues`, which is as it was."""

    async def describe(self) -> Server:
        server = await super().describe()
        return msgspec.structs.replace(server, state=f"each queue on {self._spread} shards")

    async def stats(self, queue: str) -> QueueStats:
        """Exact for each part, at a moment of its own.

        That nothing is live is said only if that was so of all parts at one moment: if it was seen
        twice, and nothing was created in between.
        """
        names = await self._parts_of(queue)
        found = await self._stats(names)
        for _ in range(_LOOKS):
            if self._spread == 1 or any(stats.live for stats in found):
                break
            before, found = found, await self._stats(names)
            if [stats.created for stats in before] == [stats.created for stats in found]:
                break
        return _sum(found)

    async def _stats(self, names: Sequence[str]) -> list[QueueStats]:
        return await together([self._parts.stats(name) for name in names], changes=False)

    async def get(self, queue: str, id: str) -> Stored | None:
        part = part_of(check_id(id), self._spread)
        return await self._parts.get((await self._parts_of(queue))[part], id)

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        """A share of each part, in order; so from page to page the order is that of each part."""
        room = min(check_whole(limit, "limit", least=1), MOST)
        marks = self._read_marks(after)
        names = await self._parts_of(queue)
        found: dict[int, list[Stored]] = {}
        while room > 0 and (open_parts := [part for part in marks.order if not marks.ended(part)]):
            asked = open_parts[:room]
            share = room // len(asked)
            calls = [
                self._parts.scan(names[part], state, after=marks.after(part), limit=share)
                for part in asked
            ]
            for part, page in zip(asked, await together(calls, changes=False), strict=True):
                found.setdefault(part, []).extend(page.items)
                marks.move(part, page.after)
                room -= len(page.items)
            marks.begin_behind(asked[-1])
        items = heapq.merge(*found.values(), key=_ORDER[state])  # each part stays in its order
        return Page(list(items), marks.written())

    def _read_marks(self, after: str | None) -> Marks:
        if after is None:
            return Marks([None] * self._spread, 0)
        try:
            places, first = msgspec.json.decode(after, type=tuple[list[str | None], int])
            if len(places) != self._spread or not 0 <= first < self._spread:
                raise ValueError(f"not of {self._spread} shards")
        except (msgspec.DecodeError, ValueError) as error:
            raise InvalidOption(f"after must come from a page of this scan: {error}") from error
        return Marks(places, first)

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        by_part = split(check_ids(ids), str, self._spread)
        names = await self._parts_of(queue)
        self._watch(queue).changed()
        calls = [self._parts.restore(names[part], some) for part, some in by_part.items()]
        return set().union(*await together(calls))

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        """Oldest first within a part. Each part keeps its newest `keep`, so among them are those
        of the whole queue."""
        check_whole(keep, "keep", least=0)
        check_whole(limit, "limit", least=0)
        seconds(older_than, "older_than")
        gone = 0
        for name in await self._parts_of(queue):
            if gone < limit:
                with part_done(gone > 0):
                    gone += await self._parts.prune(
                        name, older_than=older_than, keep=keep, limit=limit - gone
                    )
        return gone

    async def purge(self, queue: str) -> int:
        names = await self._parts_of(queue)
        return sum(await together([self._parts.purge(name) for name in names]))

    async def drop(self, queue: str) -> None:
        """And its mark: from then on it may be spread otherwise. So stop those first who use it."""
        names = await self._parts_of(queue)
        await together([self._parts.drop(name) for name in names])
        with part_done():
            await self._run("mark", queue, "none")
            self._trusted.pop(queue, None)
            await self._unlist(queue)
            if await self._holds(queue):  # somebody has sent to it meanwhile
                await self._parts_of(queue, claim=True)

    async def pause(self, queue: str) -> None:
        """Part by part: if it fails, do it again."""
        names = await self._parts_of(queue, claim=True)
        await together([self._parts.pause(name) for name in names])

    async def resume(self, queue: str) -> None:
        """Part by part: if it fails, do it again."""
        names = await self._parts_of(queue)
        self._watch(queue).changed()
        await together([self._parts.resume(name) for name in names])

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        """One that is not in the part of its key, or of whom it reports to, is an InvalidOption."""
        check_adopted(messages, reports, beyond)
        check_ties(messages, self._spread)
        by_part = split(messages, _id, self._spread)
        heard = split(reports, str, self._spread)
        names = await self._parts_of(queue, claim=bool(messages or beyond))
        self._watch(queue).changed()
        calls = [
            self._parts.adopt(
                name,
                by_part.get(part, []),
                reports={id: reports[id] for id in heard.get(part, ())},
                beyond=beyond,
            )
            for part, name in enumerate(names)
            if beyond or part in by_part or part in heard
        ]
        return _in_order(messages, await together(calls))

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        check_expelled(messages)
        by_part = split(messages, _id, self._spread)
        names = await self._parts_of(queue)
        self._watch(queue).changed()
        calls = [self._parts.expel(names[part], some) for part, some in by_part.items()]
        return _in_order(messages, await together(calls))

    async def workers(self, queue: str) -> Sequence[Holder]:
        names = await self._parts_of(queue)
        calls = [self._parts.workers(name) for name in names]
        found: dict[str, Holder] = {}
        for some in await together(calls, changes=False):
            for one in some:
                found[one.name] = _merged(found[one.name], one) if one.name in found else one
        return [found[name] for name in sorted(found)]


class Marks:
    """How far a scan has come in each part, and which is the next."""

    def __init__(self, places: list[str | None], first: int) -> None:
        self._places = places
        self._first = first

    @property
    def order(self) -> list[int]:
        """All parts, the next one first."""
        count = len(self._places)
        return [(self._first + n) % count for n in range(count)]

    def ended(self, part: int) -> bool:
        """Whether all of it was seen."""
        return self._places[part] == _END

    def after(self, part: int) -> str | None:
        """Where to go on."""
        return self._places[part]

    def move(self, part: int, after: str | None) -> None:
        """A page was seen."""
        self._places[part] = _END if after is None else after

    def begin_behind(self, part: int) -> None:
        """The parts take turns, also if a page has room for fewer than there are."""
        self._first = (part + 1) % len(self._places)

    def written(self) -> str | None:
        """For the next page; None if all of it was seen."""
        if all(place == _END for place in self._places):
            return None
        return msgspec.json.encode((self._places, self._first)).decode()


def _in_line(message: Stored) -> tuple[Any, ...]:
    return -message.priority, message.due_at


_ORDER: Mapping[State, Callable[[Stored], Any]] = {
    State.READY: _in_line,
    State.DELAYED: lambda message: (message.due_at, -message.priority),
    State.LEASED: lambda message: message.leased_until or 0.0,
    State.BLOCKED: lambda message: message.id,
    State.ARCHIVED: lambda message: -(message.archived_at or 0.0),
}


def _id(message: Stored) -> str:
    return message.id


def _in_order(messages: Sequence[Stored], left: Sequence[Sequence[Stored]]) -> list[Stored]:
    """Those of the messages that the parts gave back."""
    refused = Counter(id(message) for some in left for message in some)
    found = []
    for message in reversed(messages):  # of one that is named twice the first is taken
        if refused[id(message)]:
            refused[id(message)] -= 1
            found.append(message)
    return found[::-1]


def _sum(parts: Sequence[QueueStats]) -> QueueStats:
    archived: Counter[str] = Counter()
    for stats in parts:
        archived.update(stats.archived)
    oldest = [stats.oldest_due for stats in parts if stats.oldest_due is not None]
    return QueueStats(
        ready=sum(stats.ready for stats in parts),
        delayed=sum(stats.delayed for stats in parts),
        leased=sum(stats.leased for stats in parts),
        blocked=sum(stats.blocked for stats in parts),
        archived=dict(archived),
        oldest_due=max(oldest, default=None),
        paused=any(stats.paused for stats in parts),
        created=sum(stats.created for stats in parts),
        token=max(stats.token for stats in parts),
    )


def _merged(one: Holder, other: Holder) -> Holder:
    """One holder, as two parts know it. It is announced in one of them at most."""
    ends = [end for end in (one.leased_until, other.leased_until) if end is not None]
    announced = one if one.until is not None else other
    leases = one.leases + other.leases
    return msgspec.structs.replace(announced, leases=leases, leased_until=min(ends, default=None))
