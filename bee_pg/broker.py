"""The broker on PostgreSQL: each verb packs its arguments, calls its function, reads the rows.

No rule of bee lives here. What the verbs mean is in `sql/`, file by file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, overload

import psycopg
from psycopg.rows import TupleRow

from bee_core.broker import NOTHING, Packing, Store
from bee_core.checks import (
    check_about,
    check_draft,
    check_holder,
    check_id,
    check_ids,
    check_progress,
    check_queue,
    check_remarks,
    check_settlement,
    check_terminal,
    check_whole,
)
from bee_core.disposition import Archive, Reschedule, Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import (
    BrokerUnavailable,
    IdTaken,
    InvalidName,
    OutcomeUnknown,
    part_done,
)
from bee_core.message import (
    THROTTLE,
    Draft,
    Lease,
    Receipt,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_core.stored import Stored
from bee_core.url import Url, as_url, redact
from bee_pg.address import OWN, parameters
from bee_pg.inspector import PgInspector
from bee_pg.line import Line
from bee_pg.migrate import DEFAULT_SCHEMA, check_schema
from bee_pg.records import (
    LEASE,
    LETTERS,
    leased,
    receipt_columns,
    report,
    said_column,
    send_statement,
    settlement_columns,
    throttle_columns,
)
from bee_pg.sending import AsyncSending, Sending, sending
from bee_pg.waiting import Waiting

_REST = 5.0
"""Seconds after which one who waits sees to it that he is still listed as idle."""
_PATIENCE = 0.8
"""The part of the deadline after which a lease gives up by itself: nobody may be there any more."""


class PgBroker(PgInspector, Packing, Store):
    """Messages in a PostgreSQL database.

    schema      where bee's tables are
    pool_size   connections at most, beside the one that listens
    deadline    seconds after which a call that got no answer is given up
    migrate     create or bring up to date bee's schema when it is first used
    notify      wake idle workers by LISTEN and NOTIFY; without it they poll
    """

    def __init__(
        self,
        url: str = "postgresql://",
        *,
        schema: str = DEFAULT_SCHEMA,
        pool_size: int = 10,
        deadline: Duration = 5.0,
        migrate: bool = False,
        notify: bool = True,
    ) -> None:
        url = as_url(url)
        self._shown, self._schema = redact(url), schema  # first: a traceback may show it
        self._parameters = parameters(url)
        check_schema(schema)
        self._pool_size = check_whole(pool_size, "pool_size", least=1)
        self._deadline = seconds(deadline, "deadline", least=0.01)
        self._migrate = migrate
        self._notify = notify
        self._start_afresh()

    @classmethod
    def from_url(cls, url: Url) -> PgBroker:
        """`postgresql://` with whatever libpq understands, and bee's own parameters."""
        schema = url.string("schema")
        options: dict[str, Any] = {
            "schema": DEFAULT_SCHEMA if schema is None else schema,
            "pool_size": url.integer("pool_size") or 10,
            "deadline": url.number("deadline", least=0.01) or 5.0,
            "migrate": url.flag("migrate") or False,
            "notify": url.flag("notify") is not False,
        }
        return cls(url.without(*OWN), **options)

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._lines: dict[str, Line] = {}
        self._waitings: dict[str, Waiting] = {}

    def clone(self) -> PgBroker:
        broker = type(self).__new__(type(self))
        broker.__dict__.update(self.__dict__)
        broker._start_afresh()
        return broker

    def __repr__(self) -> str:
        return f"<PgBroker on {self._shown}, schema {self._schema}>"

    @overload
    def sending(self, connection: psycopg.AsyncConnection[Any]) -> AsyncSending: ...
    @overload
    def sending(self, connection: psycopg.Connection[Any]) -> Sending: ...
    @overload
    def sending(self, connection: object) -> Any: ...
    def sending(self, connection: object) -> AsyncSending | Sending:
        """A way to send inside a transaction of the caller's own. See `bee_pg.sending`."""
        found: AsyncSending | Sending = sending(connection, schema=self._schema)
        return found

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        statement, arguments = self._packed(queue, drafts)
        if not drafts:
            return await self._send_nothing()
        return _sent(queue, await self._carry_out(statement, arguments))

    def pack(
        self, queue: str, drafts: Sequence[Draft]
    ) -> Callable[[], Coroutine[Any, Any, Sequence[Sent]]]:
        statement, arguments = self._packed(queue, drafts)
        return partial(self._send, queue, statement, arguments) if drafts else self._send_nothing

    def _packed(self, queue: str, drafts: Sequence[Draft]) -> tuple[str, Sequence[Any]]:
        for draft in drafts:
            check_draft(draft)
        if len(drafts) > 1 and len({draft.id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        check_queue(queue)
        return send_statement(self._schema, queue, drafts, straight=self._pool.prepares)

    async def _send(self, queue: str, statement: str, arguments: Sequence[Any]) -> Sequence[Sent]:
        return _sent(queue, await self._carry_out(statement, arguments))

    async def _send_nothing(self) -> Sequence[Sent]:
        self._check_usable()
        return []

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        hidden = seconds(duration, "duration", least=0.001)
        line, waiting = self._line(check_queue(queue)), self._waiting(queue)
        loop = asyncio.get_running_loop()
        began = loop.time()
        lows, since = line.reach(began)
        channel = waiting.rise(self._bell)
        try:
            rows = await self._run_on(
                queue,
                "lease",
                LEASE,
                min(limit, 2**31 - 1),
                hidden,
                holder,
                lows,
                since,
                channel,
                _PATIENCE * self._deadline,
                *throttle_columns(throttle),
                None if lows is None else line.follows(),
            )
        finally:
            waiting.risen(self._bell, channel)
        found = leased(rows)
        line.looked(began, loop.time(), found, whole=lows is None, enough=len(rows) >= limit)
        waiting.leased(len(rows), found.quiet)
        return found.leases

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        hidden = seconds(duration, "duration", least=0.001)
        check_progress(progress)
        check_remarks(remarks)
        types = "%b::text[], %b::int8[], %b::float8, %b::bytea[], %b::bytea[]"
        said = [said_column(receipts, progress), said_column(receipts, remarks)]
        columns = [*receipt_columns(receipts), hidden, *said]
        [[lost]] = await self._run_on(queue, "extend", types, *columns)
        return {receipts[n - 1] for n in lost}

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            check_settlement(settlement)
        check_queue(queue)
        lost: set[Receipt] = set()
        pages = _in_turn(settlements)
        for page in pages:
            types, columns = settlement_columns(page)
            with part_done(begun=page is not pages[0]):
                [[numbers]] = await self._run_on(queue, "settle", types, *columns)
            lost.update(page[n - 1].receipt for n in numbers)
        ways = [settlement.disposition for settlement in settlements]
        if any(isinstance(way, Reschedule) and way.front for way in ways):
            self._line(queue).forget()
        return lost

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        archived = isinstance(check_terminal(to), Archive)
        types = "%b::text[], %b::bool, %b::bool"
        wanted = list(check_ids(ids))
        [[missing]] = await self._run_on(queue, "cancel", types, wanted, archived, running)
        return set(missing)

    async def adopt(
        self, queue: str, messages: Sequence[Stored], **options: Any
    ) -> Sequence[Stored]:
        left = await super().adopt(queue, messages, **options)
        self._line(queue).forget()  # they are due when they were there: some at the very front
        return left

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        rows = await self._run_on(queue, "results", "%b::text[]", list(check_ids(ids)))
        return {row[0]: report(row) for row in rows}

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        types = "%b::text, %b::text, %b::int4"
        most = min(check_whole(limit, "limit", least=1), 2**31 - 1)
        behind = check_id(after) if after else ""
        rows = await self._run_on(queue, "reports", types, check_id(id), behind, most)
        return [report(row) for row in rows]

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        types = "%b::text, %b::bytea, %b::float8"
        said = [check_holder(holder), check_about(about).encode(), seconds(duration, "duration")]
        await self._run_on(queue, "announce", types, *said)

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Wait to be notified. It only says that there may be something; `lease` finds out."""
        timeout = seconds(timeout, "timeout")
        check_queue(queue)
        self._check_usable()
        if not timeout:
            return
        waiting = self._waiting(queue)
        try:
            if self._notify and await self._ears().hears():
                await waiting.listen(self._ears(), timeout)
            else:
                await waiting.poll(timeout)
        except (BrokerUnavailable, OutcomeUnknown):
            self._check_usable()  # closed meanwhile: that has cut it off, and nothing is in doubt
            raise

    # What one broker knows of each queue.

    def _line(self, queue: str) -> Line:
        return self._lines.setdefault(queue, Line())

    def _waiting(self, queue: str) -> Waiting:
        if queue not in self._waitings:
            run, line = partial(self._run_on, queue), self._line(queue)
            self._waitings[queue] = Waiting(queue, run, line, renew=_REST)
        return self._waitings[queue]


def _sent(queue: str, rows: Sequence[TupleRow]) -> Sequence[Sent]:
    """What was done with each draft; nothing is said of a single one that was kept."""
    [[sent, taken]] = rows or [("k", None)]
    if taken is not None:
        raise IdTaken(queue, taken)
    return list(map(LETTERS.__getitem__, sent))


def _in_turn(settlements: Sequence[Settlement]) -> Sequence[Sequence[Settlement]]:
    """All at once; but in several parts if a draft among them meets a message of another one.

    `settle.sql` takes each of its steps for all of them before it takes the next.
    """
    if not any(settlement.then for settlement in settlements):
        return [settlements]
    pages: list[list[Settlement]] = [[]]
    settled: set[str] = set()
    sent: set[str] = set()
    for settlement in settlements:
        own = settlement.receipt.id
        drafts = {draft.id for draft in settlement.then} - {own}
        if own in sent or drafts & settled:
            pages.append([])
            settled, sent = set(), set()
        pages[-1].append(settlement)
        settled.add(own)
        sent |= drafts
    return pages
