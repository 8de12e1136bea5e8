"""Stores whose clock is moved: it shows the real time, and what it was moved by.

The store's own code tells the time: in Valkey the lines at the head of its scripts, in PostgreSQL
functions of the test's that stand in front of PostgreSQL's. Nothing else is changed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from bee_core.clock import SYSTEM_CLOCK, Alarm
from bee_pg import line
from bee_redis.scripts import SCRIPTS, Script
from tests.servers import PgServer, RedisServer

_TIME = b"""\
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2]
"""
_MOVED = b"""\
local clock = call('TIME')
local NOW = clock[1] * 1000000 + clock[2] + (call('GET', 'ahead') or 0)
"""
_SHADOW = """
create schema if not exists fake;
create table if not exists fake.ahead (by interval not null);
insert into fake.ahead select interval '0' where not exists (select from fake.ahead);
create or replace function fake.clock_timestamp() returns timestamptz language sql volatile as
  $$ select pg_catalog.clock_timestamp() + by from fake.ahead $$;
create or replace function fake.statement_timestamp() returns timestamptz language sql volatile as
  $$ select pg_catalog.statement_timestamp() + by from fake.ahead $$;
do $$ declare made regprocedure; begin
  for made in select oid from pg_proc where pronamespace = 'bee'::regnamespace loop
    execute format('alter function %s set search_path to fake, bee, pg_catalog, pg_temp', made);
  end loop;
  execute format( -- for what is sent as a statement
    'alter database %I set search_path to fake, public, pg_catalog, pg_temp', current_database());
end $$;
"""


class MovedClock:
    """For the memory broker."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return SYSTEM_CLOCK.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await SYSTEM_CLOCK.sleep(seconds)

    def alarm(self) -> Alarm:
        return SYSTEM_CLOCK.alarm()

    async def advance(self, seconds: float) -> None:
        self._ahead += seconds


class MovedValkey:
    """A Valkey or Redis whose scripts add what stands in a key to the time."""

    def __init__(self, server: RedisServer) -> None:
        import redis

        self._client = redis.Redis(unix_socket_path=str(server.socket))

    async def advance(self, seconds: float) -> None:
        self._client.incrby("ahead", int(seconds * 1_000_000))

    async def flush_scripts(self) -> None:
        self._client.script_flush()

    @contextmanager
    def moved(self, scripts: Mapping[str, Script] = SCRIPTS) -> Iterator[None]:
        """Inside it, this process makes the store tell the time so."""
        before = {script: (script.text, script.sha) for script in scripts.values()}
        try:
            for script in scripts.values():
                assert script.text.count(b"'TIME'") == script.text.count(_TIME) > 0, script.verb
                script.text = script.text.replace(_TIME, _MOVED)
                script.sha = hashlib.sha1(script.text).hexdigest().encode()
            yield
        finally:
            for script, (text, sha) in before.items():
                script.text, script.sha = text, sha
            self._client.close()


class MovedPostgres:
    """A PostgreSQL with functions in front of its own that tell the time."""

    def __init__(self, server: PgServer) -> None:
        import psycopg

        self._connection = psycopg.connect(server.url, autocommit=True)

    async def advance(self, seconds: float) -> None:
        self._connection.execute(
            "update fake.ahead set by = by + make_interval(secs => %s)", [seconds]
        )

    @contextmanager
    def moved(self) -> Iterator[None]:
        """From now on it tells the time so. Looks at the line are never slow: see `bee_pg.line`."""
        with self._connection as connection, mock.patch.object(line, "_SLOW", math.inf):
            connection.execute(_SHADOW)
            yield
