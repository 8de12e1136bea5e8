"""The broker on PostgreSQL: each verb packs its arguments, calls its function, reads the rows.

No rule of bee lives here. What the verbs mean is in `sql/`, file by file.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, overload

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bee_core.broker import Store
from bee_core.checks import (
    check_draft,
    check_holder,
    check_ids,
    check_queue,
    check_terminal,
    check_whole,
)
from bee_core.disposition import Archive, Reschedule, Terminal
from bee_core.duration import Duration, seconds
from bee_core.errors import IdTaken, InvalidName, InvalidOption
from bee_core.message import Draft, Lease, Receipt, Sent, Settlement
from bee_core.url import Url, redact
from bee_pg.inspector import PgInspector
from bee_pg.migrate import DEFAULT_SCHEMA, check_schema
from bee_pg.records import SEND, draft_columns, lease, receipt_columns, settlement_columns
from bee_pg.sending import LETTERS, AsyncSending, Sending, sending

_REST = 5.0
"""Seconds after which one who waits sees to it that he is still listed as idle."""
_PATIENCE = 0.8
"""The part of the deadline after which a lease gives up by itself: nobody may be there any more."""
_LEAST_DOUBT = 0.01
_BUSY = 10
"""Messages in one lease that show there is enough to do."""
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 1.0
_OWN = ("schema", "pool_size", "deadline", "migrate", "notify")


class PgBroker(PgInspector, Store):
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
        self._parameters = _parameters(url)
        self._shown = redact(url)
        self._schema = check_schema(schema)
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
        return cls(url.without(*_OWN), **options)

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
        if len({check_draft(draft).id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        check_queue(queue)
        self._check_usable()
        columns = draft_columns(drafts)
        if not drafts:
            return []
        [[sent, taken]] = await self._run_on(queue, "send", SEND, *columns)
        if taken is not None:
            raise IdTaken(queue, taken)
        return [LETTERS[letter] for letter in sent]

    async def lease(
        self, queue: str, *, limit: int, duration: float, holder: str
    ) -> Sequence[Lease]:
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        hidden = seconds(duration, "duration", least=0.001)
        loop, line = asyncio.get_running_loop(), self._line(check_queue(queue))
        began = loop.time()
        lows, since = line.reach(began)
        rows = await self._run_on(
            queue,
            "lease",
            "%b::int4, %b::float8, %b::text, %b::float8[], %b::float8, %b::text, %b::float8",
            min(limit, 2**31 - 1),
            hidden,
            holder,
            lows,
            since,
            self._up(queue),
            _PATIENCE * self._deadline,
        )
        line.looked(began, loop.time(), rows, whole=lows is None)
        self._much_to_do[queue] = len(rows) >= _BUSY
        if rows:
            self._step.pop(queue, None)
            self._doubts.pop(queue, None)
        return [lease(row) for row in rows]

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], *, duration: float
    ) -> AbstractSet[Receipt]:
        hidden = seconds(duration, "duration", least=0.001)
        types = "%b::text[], %b::int8[], %b::float8"
        [[lost]] = await self._run_on(queue, "extend", types, *receipt_columns(receipts), hidden)
        return {receipts[n - 1] for n in lost}

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        for settlement in settlements:
            for draft in settlement.then:
                check_draft(draft)
        check_queue(queue)
        lost: set[Receipt] = set()
        for page in _in_turn(settlements):
            types, columns = settlement_columns(page)
            [[numbers]] = await self._run_on(queue, "settle", types, *columns)
            lost.update(page[n - 1].receipt for n in numbers)
        if any(_goes_to_the_front(settlement) for settlement in settlements):
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

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Wait to be notified. It only says that there may be something; `lease` finds out."""
        timeout = seconds(timeout, "timeout")
        check_queue(queue)
        self._check_usable()
        if not timeout:
            return
        if not self._notify or not await self._ears().hears():
            await self._poll(queue, timeout)
            return
        loop, bell = asyncio.get_running_loop(), self._ears()
        until, pause, woken = loop.time() + timeout, _REST, False
        while pause == _REST and not woken:
            waiter = bell.expect(queue)
            try:
                await self._lie_down(queue)
                pause = min(await self._pause(queue), _REST, max(until - loop.time(), 0.0))
            except BaseException:
                bell.dismiss(queue, waiter)
                raise
            woken = await bell.until(queue, waiter, pause)

    async def _poll(self, queue: str, timeout: float) -> None:
        """Look again and again, ever less often until a lease has found something."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while (left := until - loop.time()) > 0:
            step = self._step.get(queue, _SHORTEST_POLL)
            self._step[queue] = min(2 * step, _LONGEST_POLL)
            pause = await self._pause(queue)
            await asyncio.sleep(min(left, step, pause))
            if pause <= step:
                return

    async def _pause(self, queue: str) -> float:
        """Seconds until it is worth while to look.

        What is ready and yet was not leased is locked by somebody, for as long as he likes.
        """
        upcoming = await self._upcoming(queue)
        if upcoming > 0:
            self._doubts.pop(queue, None)
            return upcoming
        doubt = self._doubts.get(queue, 0.0)
        self._doubts[queue] = min(max(2 * doubt, _LEAST_DOUBT), _LONGEST_POLL)
        return doubt

    async def _upcoming(self, queue: str) -> float:
        """Seconds until something may be ready."""
        reach = self._line(queue).reach(asyncio.get_running_loop().time())
        rows = await self._run_on(queue, "upcoming", "%b::float8[], %b::float8", *reach)
        return math.inf if not rows or rows[0][0] is None else float(rows[0][0])

    async def _lie_down(self, queue: str) -> None:
        """Be listed as idle, unless that still holds for a while."""
        bell, now = self._ears(), asyncio.get_running_loop().time()
        await bell.risen()
        if bell.resting.get(queue, 0.0) < now + 1.2 * _REST:
            await self._run_on(queue, "rest", "%b::text, %b::float8", bell.channel, 2 * _REST)
            bell.resting[queue] = now + 2 * _REST

    def _up(self, queue: str) -> str | None:
        """The channel to be taken off the list of the idle, if there was much to do of late."""
        bell = self._bell
        if bell is None or not self._much_to_do.get(queue) or bell.is_awaited(queue):
            return None
        return bell.channel if bell.resting.pop(queue, None) is not None else None

    def _start_afresh(self) -> None:
        super()._start_afresh()
        self._much_to_do: dict[str, bool] = {}
        self._step: dict[str, float] = {}
        self._doubts: dict[str, float] = {}


def _parameters(url: str) -> dict[str, Any]:
    """What libpq makes of a URL."""
    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        text = str(error).strip().replace(url, redact(url))
        own = f"bee's own parameters: {', '.join(_OWN)}; the others are libpq's"
        raise InvalidOption(f"{text} ({own})") from None
    defaults = {"fallback_application_name": "bee", "target_session_attrs": "read-write"}
    return defaults | found


def _in_turn(settlements: Sequence[Settlement]) -> Sequence[Sequence[Settlement]]:
    """All at once; but one by one if a draft among them meets a message that is settled here."""
    sent = {draft.id for settlement in settlements for draft in settlement.then}
    if any(settlement.receipt.id in sent for settlement in settlements):
        return [[settlement] for settlement in settlements]
    return [settlements]


def _goes_to_the_front(settlement: Settlement) -> bool:
    disposition = settlement.disposition
    return isinstance(disposition, Reschedule) and disposition.front
