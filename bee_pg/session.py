"""The connections of one broker object, in the one event loop that it is used in."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from psycopg.rows import TupleRow

from bee_core.checks import check_queue
from bee_core.errors import (
    BrokerClosed,
    BrokerError,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_core.forks import is_forked, this_process
from bee_pg import migrate
from bee_pg.bell import Bell
from bee_pg.faults import was_overtaken
from bee_pg.pool import Connection, Pool
from bee_pg.records import call

_OLDEST = 140000
"""As `server_version_num` has it: 14.0."""
_TRIES = 5
"""Times that a call is made, if others get in its way."""
_FAREWELL = 0.5
"""Seconds that closing may wait for the server."""


class Session:
    """What the verbs are carried out with. Opens itself at the first call; ends for good."""

    _parameters: Mapping[str, Any]
    _shown: str
    _schema: str
    _pool_size: int
    _deadline: float
    _migrate: bool
    _notify: bool

    def _start_afresh(self) -> None:
        """Nothing is open yet."""
        self._pool = Pool(self._parameters, self._pool_size, self._schema)
        self._opened = False
        self._opening = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: int | None = None  # the process that it is used in
        self._bell: Bell | None = None
        self._closed = False

    async def aclose(self) -> None:
        if is_forked(self._owner):  # its connections are the parent's
            self._closed = True
            return
        # If the event loop that it was used in is no more, only the connections are left to close.
        elsewhere = self._loop not in (None, asyncio.get_running_loop())
        if elsewhere and self._loop is not None and not self._loop.is_closed():
            raise BrokerClosed("this PgBroker belongs to another event loop: close it there")
        self._closed = True
        bell, self._bell = self._bell, None
        try:
            if elsewhere and bell is not None:
                await bell.hang_up()
            elif bell is not None:
                await bell.aclose()
                await self._take_leave(bell)
        finally:
            await self._pool.aclose()

    async def _run(self, verb: str, types: str, *arguments: Any) -> list[TupleRow]:
        """The rows of a function of bee's schema."""
        return await self._carry_out(call(self._schema, verb, types), arguments)

    async def _carry_out(self, statement: str, arguments: Sequence[Any]) -> list[TupleRow]:
        """The rows of a statement.

        It is tried again if it was rolled back because somebody else was faster: nothing is in
        doubt then, and no call of bee's is to fail because two of them have met.
        """
        until = self._check_usable().time() + self._deadline
        if not self._opened:
            await self._open(until)
        for attempt in range(_TRIES):
            try:
                return await self._pool.call(statement, arguments, until=until)
            except BrokerUnavailable as error:
                if attempt == _TRIES - 1 or not was_overtaken(error):
                    raise
                await asyncio.sleep(random.uniform(0.001, 0.01) * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _run_on(self, queue: str, verb: str, types: str, *arguments: Any) -> list[TupleRow]:
        """The rows of a function whose first argument is the name of a queue."""
        types = f"%b::text, {types}" if types else "%b::text"
        return await self._run(verb, types, check_queue(queue), *arguments)

    def _check_usable(self) -> asyncio.AbstractEventLoop:
        """The event loop that it is used in; BrokerClosed if it cannot be."""
        if self._closed:
            raise BrokerClosed("this PgBroker was closed")
        if is_forked(self._owner):
            raise BrokerClosed("this PgBroker was used before a fork: use clone() in the child")
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._owner = loop, this_process()
        elif self._loop is not loop:
            raise BrokerClosed("this PgBroker belongs to another event loop: use clone()")
        return loop

    def _until(self) -> float:
        """When a call that begins now has to be over."""
        return asyncio.get_running_loop().time() + self._deadline

    # Opening.

    async def _open(self, until: float) -> None:
        """Look once whether the server and the schema can be worked with."""
        try:
            async with asyncio.timeout_at(until), self._opening:
                if not self._opened:
                    await self._check_server(until)
                    self._opened = True
        except (TimeoutError, OutcomeUnknown) as error:  # what was to be done was not even begun
            raise BrokerUnavailable("PostgreSQL does not answer") from error

    async def _check_server(self, until: float) -> None:
        version, encoding, isolation, direct = await self._pool.run(_ask, until=until)
        if int(version) < _OLDEST:
            raise BrokerMisconfigured(f"PostgreSQL 14 or newer is needed, this is {version}")
        if encoding != "UTF8":
            raise BrokerMisconfigured(f"the database must be in UTF8, this one is in {encoding}")
        self._pool.wraps = isolation != "read committed"
        self._pool.prepares = direct
        await self._pool.run(lambda c: self._check_schema(c, until), until=until)

    async def _check_schema(self, connection: Connection, until: float) -> None:
        found = await migrate.installed(connection, self._schema)
        if self._migrate and found != migrate.latest():
            # So that it ends in its own words, and not in those of the deadline.
            patience = 0.8 * (until - asyncio.get_running_loop().time())
            await migrate.apply(connection, self._schema, patience=patience)
        else:
            migrate.check_installed(found, self._schema, self._shown)

    # Waiting.

    def _ears(self) -> Bell:
        """The bell; made when somebody waits for the first time."""
        if self._bell is None:
            self._bell = Bell(self._listen, self._probe, self._rise)
        return self._bell

    async def _listen(self, channel: str) -> Connection:
        return await self._pool.listen(channel, self._until())

    async def _probe(self, channel: str) -> bool:
        if not self._opened:
            await self._open(self._until())
        if not self._pool.prepares:
            await self._carry_out("select pg_notify(%s, '')", [channel])
        return self._pool.prepares  # no pooler is in between

    async def _rise(self, queue: str, channel: str) -> object:
        return await self._run_on(queue, "rise", "%b::text", channel)

    async def _take_leave(self, bell: Bell) -> None:
        """Be no longer listed as idle. If that fails, others may miss a wake-up, and no more."""
        statement = call(self._schema, "rise", "%b::text, %b::text")
        until = asyncio.get_running_loop().time() + min(self._deadline, _FAREWELL)
        while bell.resting:  # somebody may be about to be listed
            queue, _ = bell.resting.popitem()
            with suppress(BrokerError):
                await self._pool.call(statement, [queue, bell.channel], until=until)


async def _ask(connection: Connection) -> tuple[str, str, str, bool]:
    """What has to be known of a server, and whether we talk to it or to a pooler."""
    settings = "server_version_num", "server_encoding", "default_transaction_isolation"
    question = ", ".join(f"current_setting('{name}')" for name in settings)
    found = await connection.execute(f"select {question}, pg_backend_pid()".encode())
    [(version, encoding, isolation, pid)] = await found.fetchall()
    return version, encoding, isolation, pid == connection.info.backend_pid
