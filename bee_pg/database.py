"""One schema of one database, as an operator works on it: what `bee db` calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bee_core.errors import BrokerUnavailable, OutcomeUnknown
from bee_core.url import Url
from bee_pg import migrate
from bee_pg.broker import PgBroker
from bee_pg.pool import Connection, connect, cut


class Database:
    """Where a URL leads. The schema is the one given, or the URL's, or bee's usual one."""

    def __init__(self, url: str, schema: str | None = None) -> None:
        broker = PgBroker.from_url(Url(url))  # it knows which parameters there are
        self.shown = broker._shown
        self.schema_of_url = broker._schema
        self.schema = broker._schema if schema is None else migrate.check_schema(schema)
        self._deadline = broker._deadline
        self._parameters = broker._parameters

    async def installed(self) -> migrate.Installed | None:
        """What the database has; None if it has no schema of bee's."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._deadline
        async with self._connected() as connection:
            overdue = loop.call_at(until, cut, connection)
            try:
                return await migrate.installed(connection, self.schema)
            except OutcomeUnknown as error:  # it was only looked at
                late = loop.time() >= until
                text = "PostgreSQL did not answer in time" if late else str(error)
                raise BrokerUnavailable(text) from error
            finally:
                overdue.cancel()

    async def apply(self, *, report: migrate.Report, patience: float) -> list[str]:
        """Bring the schema up to date. See `migrate.apply`."""
        async with self._connected() as connection:
            return await migrate.apply(connection, self.schema, report=report, patience=patience)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        until = asyncio.get_running_loop().time() + self._deadline
        connection = await connect(self._parameters, until)
        try:
            yield connection
        finally:
            await connection.close()
