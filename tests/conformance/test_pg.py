"""The PostgreSQL broker keeps the contract, on every version it is for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bee_core.broker import Store
from bee_core.ids import new_id
from bee_core.testing.conformance import BrokerConformance, Harness
from bee_pg import PgBroker
from tests.servers import PgServer


class PgHarness:
    """Real time, in tenths of a second."""

    unit = 0.1

    def __init__(self, broker: Store) -> None:
        self.broker = broker
        self.queue = f"q{new_id()[-12:]}"
        self.other_queue = f"{self.queue}-other"

    async def advance(self, units: float) -> None:
        await asyncio.sleep(units * self.unit)


class OnPostgres(BrokerConformance):
    url: str

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        async with PgBroker(self.url, migrate=True) as broker:
            yield PgHarness(broker)


class TestPostgres15(OnPostgres):
    @pytest.fixture(autouse=True)
    def _server(self, pg15: PgServer) -> None:
        self.url = pg15.url


class TestPostgres16(OnPostgres):
    @pytest.fixture(autouse=True)
    def _server(self, pg16: PgServer) -> None:
        self.url = pg16.url


class TestPostgres18(OnPostgres):
    @pytest.fixture(autouse=True)
    def _server(self, pg18: PgServer) -> None:
        self.url = pg18.url
