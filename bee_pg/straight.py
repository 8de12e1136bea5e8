"""A statement that goes straight to the server, prepared and packed.

psycopg looks at every value and every column anew, for whatever they may be: two fifths of what the
client spends on sending one job. Here the arguments are text and bytes, and so is what comes back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow


class Straight(str):
    """A statement in psycopg's words, all of whose arguments are text or bytes (%b).

    It returns one row of text, or none.
    """

    __slots__ = ()


async def prepare(connection: AsyncConnection[Any], name: str, statement: Straight) -> None:
    """Have a statement prepared under a name."""
    await connection.execute(f"prepare {name} as {_numbered(statement)}".encode())


class Reader:
    """Tells when there is something to read on a connection.

    To watch a socket and to stop costs more than all else that the event loop does for a call. So
    it is watched until the loop has turned once: a call that follows at once finds it done.
    """

    def __init__(self) -> None:
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._ready: asyncio.Future[None] | None = None

    def ready(self, descriptor: int) -> asyncio.Future[None]:
        """Done when there is something. Cancelled or not, `rest` or `stop` has to follow."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        if self._watched is None:
            loop.add_reader(descriptor, self._set)
            self._watched = loop, descriptor
        return self._ready

    def rest(self) -> None:
        """A call is over."""
        self._ready = None
        if self._watched is not None:
            self._watched[0].call_soon(self._stop_if_resting)

    def stop(self) -> None:
        """Somebody else is to watch the socket, or to close it."""
        self._ready = None
        if self._watched is not None:
            (loop, descriptor), self._watched = self._watched, None
            if not loop.is_closed():
                loop.remove_reader(descriptor)

    def _stop_if_resting(self) -> None:
        if self._ready is None:
            self.stop()

    def _set(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)


async def carry_out(
    pgconn: PGconn, reader: Reader, name: bytes, arguments: Sequence[str | bytes]
) -> list[TupleRow]:
    """The row of a prepared statement, if any. Nobody else may use the connection meanwhile.

    Cancelled, it leaves the connection with an answer under way.
    """
    values = [value.encode() if isinstance(value, str) else value for value in arguments]
    last: PGresult | None = None
    try:
        pgconn.send_query_prepared(name, values, [1] * len(values), result_format=1)
        while pgconn.flush():
            await _until_writable(pgconn.socket)
        while True:
            while pgconn.is_busy():
                await reader.ready(pgconn.socket)
                pgconn.consume_input()
            if (result := pgconn.get_result()) is None:  # nothing more is to come
                break
            last = result
    except BaseException:
        reader.stop()  # the socket may be closed by now
        raise
    reader.rest()
    assert last is not None, "every statement is answered"
    if last.status != ExecStatus.TUPLES_OK:
        raise error_from_result(last)
    return [_row(last)] if last.ntuples else []


def _row(result: PGresult) -> tuple[str | None, ...]:
    found = [result.get_value(0, column) for column in range(result.nfields)]
    return tuple([None if value is None else value.decode() for value in found])


async def _until_writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _set, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@cache
def _numbered(statement: str) -> str:
    """The statement in PostgreSQL's words: $1, $2 and so on."""
    numbers = count(1)
    return re.sub("%[%b]", lambda m: "%" if m[0] == "%%" else f"${next(numbers)}", statement)
