"""Sending inside a transaction of the caller's own: the jobs exist exactly when it commits.

    async with connection.transaction():
        await connection.execute("insert into orders ...")
        await sending(connection).send(mail, Confirm(order=7))

Nothing of bee's runs but one function in the database; the worker is woken by the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, overload

import psycopg
from psycopg.rows import tuple_row

from bee_core.checks import check_draft, check_queue
from bee_core.errors import IdTaken, InvalidName, InvalidOption
from bee_core.message import Draft, Ticket
from bee_pg.faults import translate
from bee_pg.migrate import DEFAULT_SCHEMA, check_schema
from bee_pg.records import LETTERS, send_statement

J = TypeVar("J", contravariant=True)


class Drafter(Protocol[J]):
    """What is needed of a queue: `bee.Queue` and the queues of a hive are such."""

    @property
    def name(self) -> str: ...

    def draft(self, job: J) -> Draft: ...


class AsyncSending:
    """Sends over an asynchronous connection of psycopg's."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def send(self, queue: Drafter[J], *jobs: J | Draft) -> Sequence[Ticket]:
        """Send jobs, or drafts made with `queue.draft`, in the transaction that is under way."""
        drafts = _drafts(queue, jobs)
        if not drafts:
            return []
        statement, arguments = send_statement(self._schema, queue.name, drafts)
        try:
            cursor = psycopg.AsyncCursor(self._connection, row_factory=tuple_row)
            await cursor.execute(statement, arguments, binary=True)
            row = await cursor.fetchone()
        except psycopg.Error as error:
            raise translate(error, schema=self._schema) from error
        return _tickets(queue.name, drafts, row)


class Sending:
    """Sends over a connection of psycopg's, without await."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def send(self, queue: Drafter[J], *jobs: J | Draft) -> Sequence[Ticket]:
        """Send jobs, or drafts made with `queue.draft`, in the transaction that is under way."""
        drafts = _drafts(queue, jobs)
        if not drafts:
            return []
        statement, arguments = send_statement(self._schema, queue.name, drafts)
        try:
            cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
            cursor.execute(statement, arguments, binary=True)
            row = cursor.fetchone()
        except psycopg.Error as error:
            raise translate(error, schema=self._schema) from error
        return _tickets(queue.name, drafts, row)


@overload
def sending(
    connection: psycopg.AsyncConnection[Any], *, schema: str = DEFAULT_SCHEMA
) -> AsyncSending: ...
@overload
def sending(connection: psycopg.Connection[Any], *, schema: str = DEFAULT_SCHEMA) -> Sending: ...
@overload
def sending(connection: object, *, schema: str = DEFAULT_SCHEMA) -> Any: ...
def sending(connection: object, *, schema: str = DEFAULT_SCHEMA) -> AsyncSending | Sending:
    """A way to send inside the caller's transaction.

    `connection` is one of psycopg's, or an object that holds one as `driver_connection` or
    `connection`, as those of SQLAlchemy and Django do.
    """
    check_schema(schema)
    found: Any = connection
    for _ in range(4):  # what holds it may be held by something itself
        if isinstance(found, psycopg.AsyncConnection):
            return AsyncSending(found, schema)
        if isinstance(found, psycopg.Connection):
            return Sending(found, schema)
        found = getattr(found, "driver_connection", None) or getattr(found, "connection", None)
    raise InvalidOption(
        f"sending needs a connection of psycopg 3, or an object that holds one, not "
        f"{type(connection).__name__}"
    )


def _drafts(queue: Drafter[J], jobs: Sequence[J | Draft]) -> list[Draft]:
    check_queue(queue.name)
    drafts = [job if isinstance(job, Draft) else queue.draft(job) for job in jobs]
    if len({check_draft(draft).id for draft in drafts}) < len(drafts):
        raise InvalidName("the ids of one send must be distinct")
    return drafts


def _tickets(queue: str, drafts: Sequence[Draft], row: Any) -> list[Ticket]:
    sent, taken = row
    if taken is not None:
        raise IdTaken(queue, taken)
    return [Ticket(draft.id, LETTERS[letter]) for draft, letter in zip(drafts, sent, strict=True)]
