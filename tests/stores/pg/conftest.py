"""Servers to play with, and a broker on one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bee_pg import PgBroker
from tests.servers import PgServer


@pytest.fixture
def own() -> Iterator[PgServer]:
    """A server that one test may ill-treat."""
    server = PgServer(18, "synchronous_commit=on", keep=True)
    yield server
    server.stop()


@pytest.fixture
def url(pg: PgServer) -> str:
    """A database that nobody else uses."""
    return pg.database()


@pytest.fixture
async def broker(url: str) -> AsyncIterator[PgBroker]:
    """A broker on the database of this test, with less patience than usual."""
    async with PgBroker(url, deadline=2, migrate=True) as broker:
        await broker.queues()
        yield broker
