"""The stores that faults of stores are looked for in. After every test nothing of bee is left."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bee_core.ids import new_id
from bee_core.testing.conformance import Harness
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.conformance.memory import memory_harness
from tests.conformance.test_pg import PgHarness
from tests.conformance.test_redis import RedisHarness
from tests.servers import PgServer, RedisServer
from tests.worker.conftest import nothing_is_left

__all__ = ["nothing_is_left"]


@pytest.fixture(params=["memory", "valkey", "pg"])
async def h(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """A store that a test has for itself."""
    match request.param:
        case "memory":
            async with memory_harness() as harness:
                yield harness
        case "valkey":
            server: RedisServer = request.getfixturevalue("valkey")
            async with RedisBroker(server.url, prefix=new_id()) as broker:
                yield RedisHarness(broker)
        case _:
            pg: PgServer = request.getfixturevalue("pg")
            async with PgBroker(pg.url, migrate=True) as broker:
                yield PgHarness(broker)
