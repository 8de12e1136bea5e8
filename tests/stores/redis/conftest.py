"""Servers to play with, and a broker on one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from bee_redis import RedisBroker
from tests.servers import RedisServer, valkey_binary


@pytest.fixture(scope="session")
def shared() -> Iterator[RedisServer]:
    """A server for all these tests."""
    server = RedisServer(valkey_binary())
    yield server
    server.stop()


@pytest.fixture
def own() -> Iterator[RedisServer]:
    """A server that one test may ill-treat."""
    server = RedisServer(valkey_binary())
    yield server
    server.stop()


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """A server that is as good as new, for a test that leaves its settings alone."""
    shared.ask("FLUSHALL")
    shared.ask("SCRIPT", "FLUSH")
    shared.ask("CONFIG", "RESETSTAT")
    return shared


@pytest.fixture
async def broker(server: RedisServer) -> AsyncIterator[RedisBroker]:
    """A broker on the server of this test, with less patience than usual."""
    async with RedisBroker(server.url, deadline=2) as broker:
        yield broker
