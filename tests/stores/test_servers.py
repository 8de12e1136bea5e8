"""The servers of the tests: they can be crashed and silenced, and they never outlive the tests."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from tests.servers import PgBouncer, PgServer, free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def own() -> Iterator[PgServer]:
    """A server that these tests may ill-treat, and which keeps what it was told."""
    server = PgServer(18, "work_mem=1MB", port=free_port(), keep=True, durable=True)
    yield server
    server.stop()


@pytest.mark.parametrize("major", [15, 16, 18])
def test_a_server_of_each_version_gives_new_databases(
    major: int, request: pytest.FixtureRequest
) -> None:
    server: PgServer = request.getfixturevalue(f"pg{major}")

    one, other = server.database(), server.database()

    assert one != other
    with psycopg.connect(one) as connection:
        assert major == connection.info.server_version // 10000
        assert connection.execute("show server_encoding").fetchone() == ("UTF8",)


def test_options_win_and_a_durable_server_is_as_postgresql_comes(
    pg: PgServer, own: PgServer
) -> None:
    assert [("off",)] == pg.ask("show fsync")
    assert [("on",)] == own.ask("show fsync")
    assert [("1MB",)] == own.ask("show work_mem")


def test_a_crashed_server_starts_again_with_what_was_committed(own: PgServer) -> None:
    own.ask("create table kept (n int)")
    own.ask("insert into kept values (%s)", 42)

    own.kill()
    with pytest.raises(psycopg.OperationalError):
        own.ask("select 1")
    own.start()

    assert [(42,)] == own.ask("select n from kept")


def test_a_frozen_server_is_silent_on_connections_old_and_new(own: PgServer) -> None:
    with closing(psycopg.connect(own.url)) as old, socket.socket() as new:
        with own.frozen():
            old.pgconn.send_query(b"select 1")
            new.connect(("127.0.0.1", own.port))
            new.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")  # may we use TLS?
            assert ([], [], []) == select.select([old.fileno(), new.fileno()], [], [], 0.3)

        for connection in (old.fileno(), new.fileno()):
            assert select.select([connection], [], [], 10)[0]


def test_a_frozen_server_can_be_killed_and_what_it_had_not_read_is_not_done(own: PgServer) -> None:
    own.ask("create table unread (n int)")

    with closing(psycopg.connect(own.url, autocommit=True)) as connection, own.frozen():
        connection.pgconn.send_query(b"insert into unread values (1)")
        own.kill()
    own.start()

    assert [] == own.ask("select n from unread")


def test_behind_the_pooler_a_session_lasts_for_a_transaction(pgbouncer: PgBouncer) -> None:
    url = pgbouncer.database()

    with (
        psycopg.connect(url, autocommit=True) as one,
        psycopg.connect(url, autocommit=True) as other,
    ):
        sessions = {c.execute("select pg_backend_pid()").fetchone() for c in (one, other)}
        assert 1 == len(sessions)
        with one.transaction(), other.transaction():
            sessions = {c.execute("select pg_backend_pid()").fetchone() for c in (one, other)}
        assert 2 == len(sessions)


def test_nothing_outlives_tests_that_are_killed() -> None:
    program = """
import sys
from tests.servers import PgServer
from tests.servers.postgres import _pg_template
servers = [PgServer(18), PgServer(18, keep=True), PgServer(18)]
with servers[2].frozen():
    print(*(server.directory for server in servers), _pg_template(18).parent, flush=True)
    sys.stdin.read()
"""
    tests = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with tests:
        assert tests.stdout is not None
        directories = [Path(path.decode()) for path in tests.stdout.readline().split()]
        assert [True] * 4 == [directory.exists() for directory in directories]
        family = psutil.Process(tests.pid).children(recursive=True)
        assert len(family) > 4 + 3  # supervisors, servers, and children of those

        tests.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + 15
    while any(directory.exists() for directory in directories) or _running(family):
        assert time.monotonic() < deadline, (directories, _running(family))
        time.sleep(0.02)


def _running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if _is_alive(each)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
