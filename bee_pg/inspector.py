"""The operator's half of the PostgreSQL broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, assert_never

import msgspec
from psycopg.rows import TupleRow

from bee_core.adoption import Batch, batches, check_adopted, check_expelled
from bee_core.broker import Examined, Inspector
from bee_core.checks import check_id, check_ids, check_queue, check_whole
from bee_core.duration import seconds
from bee_core.errors import InvalidOption, part_done
from bee_core.message import NO_REPORTS, Report
from bee_core.stored import Finding, Holder, Page, QueueStats, State, Stored
from bee_pg.adopting import ADOPT, EXPEL, adoption_columns, seen_columns
from bee_pg.examine import findings
from bee_pg.records import holder, stored
from bee_pg.session import Session

_PAGE = 10_000
"""Rows that one statement deletes: it has to be done within its deadline."""


class _Mark(msgspec.Struct, array_like=True):
    """Where a page ended; the arguments of scan.sql."""

    rank: Annotated[int, msgspec.Meta(ge=-9, le=9)] | None = None
    at: Annotated[float, msgspec.Meta(ge=0, le=9e12)] | None = None
    number: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    last: Annotated[str, msgspec.Meta(pattern=r"\A[^\x00]*\Z")] | None = None
    parked: bool | None = None


class PgInspector(Session, Inspector, Examined):
    """Every verb of Inspector, each as its function."""

    async def queues(self) -> Sequence[str]:
        return sorted(row[0] for row in await self._run("queues", ""))

    async def stats(self, queue: str) -> QueueStats:
        [row] = await self._run_on(queue, "stats", "")
        ready, delayed, leased, blocked, oldest, paused, archived, created, token = row
        return QueueStats(
            ready=ready,
            delayed=delayed,
            leased=leased,
            blocked=blocked,
            archived={archived[i]: int(archived[i + 1]) for i in range(0, len(archived), 2)},
            oldest_due=oldest,
            paused=paused,
            created=created,
            token=token,
        )

    async def get(self, queue: str, id: str) -> Stored | None:
        rows = await self._run_on(queue, "get", "%b::text", check_id(id))
        return stored(rows[0]) if rows else None

    async def scan(
        self, queue: str, state: State, *, after: str | None = None, limit: int = 100
    ) -> Page:
        limit = min(check_whole(limit, "limit", least=1), _PAGE)
        mark = _Mark() if after is None else _read_mark(after)
        rows = await self._run_on(
            queue,
            "scan",
            "%b::text, %b::int4, %b::int2, %b::float8, %b::int8, %b::text, %b::bool",
            state.value,
            limit + 1,
            mark.rank,
            mark.at,
            mark.number,
            mark.last,
            mark.parked,
        )
        page = rows[:limit]
        more = _mark(state, page[-1]) if len(rows) > limit else None
        return Page([stored(row) for row in page], more)

    async def restore(self, queue: str, ids: Sequence[str]) -> AbstractSet[str]:
        [[missing]] = await self._run_on(queue, "restore", "%b::text[]", list(check_ids(ids)))
        return set(missing)

    async def prune(
        self, queue: str, *, older_than: float = 0.0, keep: int = 0, limit: int = 1000
    ) -> int:
        check_whole(keep, "keep", least=0)
        check_whole(limit, "limit", least=0)
        age = seconds(older_than, "older_than")
        types = "%b::float8, %b::int8, %b::int4"
        return await self._in_pages(queue, "prune", types, age, min(keep, 2**62), limit=limit)

    async def purge(self, queue: str) -> int:
        return await self._in_pages(queue, "purge", "%b::int4")

    async def drop(self, queue: str) -> None:
        await self._in_pages(queue, "drop", "%b::int4")

    async def pause(self, queue: str) -> None:
        await self._run_on(queue, "pause", "")

    async def resume(self, queue: str) -> None:
        await self._run_on(queue, "resume", "")

    async def adopt(
        self,
        queue: str,
        messages: Sequence[Stored],
        *,
        reports: Mapping[str, Sequence[Report]] = NO_REPORTS,
        beyond: int = 0,
    ) -> Sequence[Stored]:
        check_adopted(messages, reports, beyond)
        check_queue(queue)
        self._check_usable()
        todo = batches(messages, reports) or ([Batch([], {})] if beyond else [])
        left: list[int] = []
        for batch in todo:
            columns = adoption_columns([messages[n] for n in batch.positions], batch.reports)
            with part_done(batch is not todo[0]):
                [[here]] = await self._run_on(queue, "adopt", ADOPT, beyond, *columns)
            left += (batch.positions[n - 1] for n in here)
        return [messages[n] for n in sorted(left)]

    async def expel(self, queue: str, messages: Sequence[Stored]) -> Sequence[Stored]:
        check_expelled(messages)
        check_queue(queue)
        self._check_usable()
        todo = [batch.positions for batch in batches(messages)]
        left: list[int] = []
        for positions in todo:
            columns = seen_columns([messages[n] for n in positions])
            with part_done(positions is not todo[0]):
                [[changed]] = await self._run_on(queue, "expel", EXPEL, *columns)
            left += (positions[n - 1] for n in changed)
        return [messages[n] for n in sorted(left)]

    async def workers(self, queue: str) -> Sequence[Holder]:
        return [holder(row) for row in await self._run_on(queue, "workers", "")]

    async def examine(self) -> Sequence[Finding]:
        [row] = await self._run("examine", "")
        return findings(row)

    async def _in_pages(
        self, queue: str, verb: str, types: str, *arguments: Any, limit: int | None = None
    ) -> int:
        """Delete until there is no more, or as many as wanted; return how many."""
        gone = 0
        while limit is None or gone < limit:
            most = _PAGE if limit is None else min(_PAGE, limit - gone)
            with part_done(gone > 0):
                [[count]] = await self._run_on(queue, verb, types, *arguments, most)
            gone += count
            if count < most:
                break
        return gone


def _mark(state: State, row: TupleRow) -> str:
    """Where a page ends whose last row is this."""
    last, parked, number = stored(row), *row[26:28]
    match state:
        case State.READY | State.DELAYED:
            mark = _Mark(rank=-last.priority, at=last.due_at, number=number, parked=parked)
        case State.LEASED:
            mark = _Mark(at=last.leased_until, number=number)
        case State.BLOCKED:
            mark = _Mark(last=last.id)
        case State.ARCHIVED:
            mark = _Mark(at=last.archived_at, number=number)
        case _:
            assert_never(state)
    return msgspec.json.encode(mark).decode()


def _read_mark(after: str) -> _Mark:
    try:
        return msgspec.json.decode(after, type=_Mark)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidOption(f"after must come from a page of this scan: {error}") from error
