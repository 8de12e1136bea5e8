"""A statement that goes straight to the server, prepared and packed.

psycopg looks at every value and every column anew, for whatever they may be: two fifths of what the
client spends on sending one job. Here the arguments are text and bytes, and so is what comes back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow


class Straight(str):
    """A statement in psycopg's words, all of whose arguments are text or bytes (%b).

    It returns one row, of text.
    """

    __slots__ = ()


async def prepare(connection: AsyncConnection[Any], name: str, statement: Straight) -> None:
    """Have a statement prepared under a name."""
    await connection.execute(f"prepare {name} as {_numbered(statement)}".encode())


async def carry_out(
    connection: AsyncConnection[Any], name: str, arguments: Sequence[str | bytes]
) -> list[TupleRow]:
    """The one row of a prepared statement. Nobody else may use the connection meanwhile.

    Cancelled, it leaves the connection with an answer under way.
    """
    values = [value.encode() if isinstance(value, str) else value for value in arguments]
    connection.pgconn.send_query_prepared(name.encode(), values, [1] * len(values), result_format=1)
    result = await _result(connection)
    if result.status != ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    row: list[str | None] = []
    for column in range(result.nfields):
        value = result.get_value(0, column)
        row.append(None if value is None else value.decode())
    return [tuple(row)]


async def _result(connection: AsyncConnection[Any]) -> PGresult:
    """The last answer to what was sent, as soon as there is nothing more to come."""
    loop, pgconn = asyncio.get_running_loop(), connection.pgconn
    while pgconn.flush():
        await _until(loop.add_writer, loop.remove_writer, pgconn.socket)
    last: PGresult | None = None
    while True:
        while pgconn.is_busy():
            await _until(loop.add_reader, loop.remove_reader, pgconn.socket)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        last = result
    assert last is not None, "every statement is answered"
    return last


async def _until(
    add: Callable[..., object], remove: Callable[[int], object], descriptor: int
) -> None:
    """Wait for a socket."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(descriptor, _set, ready)
    try:
        await ready
    finally:
        remove(descriptor)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


@cache
def _numbered(statement: str) -> str:
    """The statement in PostgreSQL's words: $1, $2 and so on."""
    numbers = count(1)
    return re.sub("%[%b]", lambda m: "%" if m[0] == "%%" else f"${next(numbers)}", statement)
