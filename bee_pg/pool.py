"""A few connections, and calls over them that end in time whatever the server does.

psycopg cannot be hurried: cancelled while the peer is silent, it asks the server to cancel and
waits for that too. So a call that is over time, or is no longer wanted, has its socket shut down.
That ends it at once; the connection is thrown away, and the statement was applied wholly or not at
all. It runs in the caller's own task: a task for each call would cost as much as the call.
"""

from __future__ import annotations

import asyncio
import select
import socket
from bisect import insort
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, IsolationLevel, sql
from psycopg.abc import RV, PQGen
from psycopg.rows import TupleRow
from psycopg.waiting import wait_async

from bee_core.alarm import Alarm
from bee_core.errors import BrokerClosed, BrokerUnavailable, OutcomeUnknown
from bee_core.places import Places
from bee_pg.faults import cannot_connect, translate
from bee_pg.straight import Reader, Straight, carry_out, prepare

T = TypeVar("T")

_WAIT_INTERVAL = 0.1
"""Seconds after which psycopg looks whether it was interrupted."""
_OFTEN = 3
"""Times after which a statement is prepared."""
_MUCH = 4096
"""Bytes of one value that are not kept until the next call."""


class Connection(AsyncConnection[TupleRow]):
    """A connection that ends when one who waits for it is cancelled."""

    number: int = 0
    """Its place among those of its pool, by age."""
    poll: select.poll | None = None
    """What tells whether something is to be read."""
    prepares: bool = False
    """Whether statements are prepared on it."""
    _last: AsyncCursor[TupleRow] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._names: dict[Straight, bytes] = {}
        """What was prepared, and as what."""
        self._prepared_so_far = 0
        self._reader = Reader()
        self.alarm = Alarm(partial(cut, self))
        """Ends it, at the time that is set."""

    def rows(self, statement: str, arguments: Sequence[Any]) -> Coroutine[Any, Any, list[TupleRow]]:
        """Those that a statement returns."""
        if isinstance(statement, Straight) and self.prepares:
            return self._straight(statement, arguments)
        return self._by_cursor(statement, arguments)

    async def _by_cursor(self, statement: str, arguments: Sequence[Any]) -> list[TupleRow]:
        """A cursor knows how to pack and read what it did last, so it is used again; but it also
        keeps that, so not if it is much.
        """
        cursor, self._last = self._last or self.cursor(), None
        await cursor.execute(statement, arguments, binary=True)
        rows = await cursor.fetchall()
        if len(rows) == 1 and not _is_much(arguments) and not _is_much(rows[0]):
            self._last = cursor
        return rows

    async def _straight(self, statement: Straight, arguments: Sequence[Any]) -> list[TupleRow]:
        """For one that need not go the way of all others."""
        name = self._names.get(statement) or await self._prepare(statement)
        try:
            return await carry_out(self.pgconn, self._reader, name, arguments)
        except asyncio.CancelledError:
            await self._end()
            raise

    async def _prepare(self, statement: Straight) -> bytes:
        name = f"bee_{self._prepared_so_far}"  # a new one, whatever became of those before
        self._prepared_so_far += 1
        if not self._names:
            await self.execute(b"set lock_timeout = '3s'")  # as the functions have it
        await prepare(self, name, statement)
        self._names[statement] = name.encode()
        return self._names[statement]

    def forget(self) -> None:
        """Prepare all anew: after a rollback psycopg may have the server forget everything."""
        self._names.clear()

    async def wait(
        self, gen: PQGen[RV], interval: float = _WAIT_INTERVAL, *arguments: Any, **options: Any
    ) -> RV:
        """As psycopg waits; but who is cancelled does not wait on for the server to comply."""
        self._reader.stop()
        try:
            return await wait_async(gen, self.pgconn.socket, interval, *arguments, **options)
        except asyncio.CancelledError:
            await self._end()
            raise

    async def close(self) -> None:
        self.alarm.cancel()
        self._reader.stop()
        await super().close()

    async def _end(self) -> None:
        cut(self)
        await self.close()


class Pool:
    """Up to `size` connections, made when needed. Used in one event loop."""

    def __init__(self, parameters: Mapping[str, Any], size: int, schema: str) -> None:
        self._parameters = dict(parameters)
        self._schema = schema
        self._places = Places(size)
        self._idle: list[Connection] = []
        """The oldest first. It is the first to be used: it has planned what is asked for most."""
        self._busy: set[Connection] = set()
        self._numbers = count()
        self._closed = False
        self.wraps = False
        """Whether each call needs BEGIN and COMMIT, to be READ COMMITTED."""
        self.prepares = False
        """Whether statements are prepared; behind a pooler they must not be."""

    def call(
        self, statement: str, arguments: Sequence[Any], *, until: float
    ) -> Coroutine[Any, Any, list[TupleRow]]:
        """The rows that a statement returns. Raises a BrokerError."""

        def work(connection: Connection) -> Coroutine[Any, Any, list[TupleRow]]:
            if connection.prepares is not self.prepares:
                connection.prepares = self.prepares
                connection.prepare_threshold = _OFTEN if self.prepares else None
            if self.wraps:
                return _wrapped(connection, statement, arguments)
            return connection.rows(statement, arguments)

        return self.run(work, until=until)

    async def run(self, work: Callable[[Connection], Coroutine[Any, Any, T]], *, until: float) -> T:
        """What some work over a connection returns. Raises a BrokerError."""
        connection = await self._take(until)
        connection.alarm.set(until)
        try:
            return await work(connection)
        except psycopg.Error as error:
            if asyncio.get_running_loop().time() >= until:
                raise OutcomeUnknown("PostgreSQL did not answer in time") from error
            raise translate(error, schema=self._schema) from error
        finally:
            connection.alarm.rest()
            if not self._give_back(connection):
                await connection.close()

    async def listen(self, channel: str, until: float) -> Connection:
        """A connection beside the pool, that hears on a channel."""
        connection = await connect(self._parameters, until)
        statement = sql.SQL("listen {}").format(sql.Identifier(channel))
        try:
            async with asyncio.timeout_at(until):
                await connection.execute(statement)
        except BaseException as error:
            await connection.close()
            if isinstance(error, TimeoutError):
                raise BrokerUnavailable("PostgreSQL did not answer in time") from error
            if isinstance(error, psycopg.Error):
                raise translate(error, schema=self._schema) from error
            raise
        return connection

    async def aclose(self) -> None:
        """Let go of every connection, also of those that are in use."""
        self._closed = True
        for connection in self._busy:
            cut(connection)
        while self._idle:
            await self._idle.pop().close()

    async def _take(self, until: float) -> Connection:
        if not self._places.take():
            await self._wait_for_place(until)
        try:
            while self._idle:
                connection = self._idle.pop(0)
                if is_sound(connection):
                    break
                await connection.close()
            else:
                self._check_open()
                connection = await connect(self._parameters, until)
                connection.number = next(self._numbers)
            if self._closed:  # while it was being made
                await connection.close()
                self._check_open()
        except BaseException:
            self._places.leave()
            raise
        self._busy.add(connection)
        return connection

    async def _wait_for_place(self, until: float) -> None:
        try:
            await self._places.take_turn(until)
        except TimeoutError as error:
            raise BrokerUnavailable("all connections of the pool are busy (pool_size)") from error

    def _give_back(self, connection: Connection) -> bool:
        """Whether it can be used again; else it is to be closed."""
        self._busy.discard(connection)
        self._places.leave()
        if self._closed or not is_idle(connection):
            return False
        insort(self._idle, connection, key=_age)
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed("this PgBroker was closed")


async def _wrapped(
    connection: Connection, statement: str, arguments: Sequence[Any]
) -> list[TupleRow]:
    """The rows of a statement in a transaction of its own."""
    try:
        async with connection.transaction():
            return await connection.rows(statement, arguments)
    except BaseException:
        connection.forget()
        raise


async def connect(parameters: Mapping[str, Any], until: float) -> Connection:
    """A new connection, in autocommit mode and READ COMMITTED. Raises a BrokerError."""
    try:
        async with asyncio.timeout_at(until):
            connection = await Connection.connect(
                **parameters, autocommit=True, prepare_threshold=None
            )
    except (psycopg.Error, OSError, TimeoutError) as error:
        error.__cause__ = error.__context__ = None  # whose frames would keep the connection
        raise cannot_connect(error) from error.with_traceback(None)
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    return connection


def _age(connection: Connection) -> int:
    return connection.number


def is_idle(connection: Connection) -> bool:
    """Whether nothing is under way on a connection, and nothing is known to have happened to it."""
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def is_sound(connection: Connection) -> bool:
    """Whether it is idle, and nothing has happened to it meanwhile.

    A server that goes away says so, or closes it; either can be read, and an idle connection has
    nothing else to read but harmless notices.
    """
    if not is_idle(connection):
        return False
    if (poll := connection.poll) is None:
        poll = connection.poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
    if poll.poll(0):
        with suppress(psycopg.Error):
            connection.pgconn.consume_input()
        return not connection.closed and not poll.poll(0)
    return True


def cut(connection: Connection) -> None:
    """Shut the socket down. Whoever waits on it finds that the connection has ended."""
    if connection.closed:
        return
    with suppress(OSError):
        end = socket.socket(fileno=connection.pgconn.socket)
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.detach()  # it is psycopg's to close


def _is_much(values: Sequence[Any]) -> bool:
    for value in values:
        if isinstance(value, list) or (isinstance(value, bytes | str) and len(value) > _MUCH):
            return True
    return False
