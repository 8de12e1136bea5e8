"""Short ways to say what these tests say often."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from bee_pg import migrate
from bee_pg.pool import Connection
from tests.servers import PgServer, pg_binaries

ODD_NAMES = [
    "Jobs",
    "select",
    "two words",
    'a "quoted" one',
    "it's",
    "back\\slash",
    "$$ $bee$",
    ":x :'y' %s %",
    "größe",
    "-dash",
]


def ask(url: str, statement: str, *parameters: object) -> list[Any]:
    """The rows of a statement, over a connection of its own, committed."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A connection as a migration wants it."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


async def apply(url: str, schema: str = "bee", **options: Any) -> list[str]:
    async with connected(url) as connection:
        return await migrate.apply(connection, schema, **options)


async def installed(url: str, schema: str = "bee") -> migrate.Installed | None:
    async with connected(url) as connection:
        return await migrate.installed(connection, schema)


def apply_now(url: str, schema: str = "bee") -> list[str]:
    """The same for a test that has no event loop."""
    return asyncio.run(apply(url, schema))


def steps() -> list[str]:
    """All there are."""
    return [name for name, _ in migrate.steps(None)]


def one_more(
    monkeypatch: pytest.MonkeyPatch, text: str = "alter table message add column extra integer;"
) -> str:
    """From here on this library has one migration more. Returns its name."""
    number = migrate.latest().version + 1
    every = (*migrate.migrations(), migrate.Migration(number, "more", text))
    monkeypatch.setattr(migrate, "migrations", lambda: every)
    return f"{number:04}_more"


def role(server: PgServer, url: str) -> tuple[str, str]:
    """A new role without any rights, and the URL with which it comes."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    server.ask(f"create role {name} login")
    return name, url.replace("postgres@", f"{name}@")


def psql(server: PgServer, url: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a DBA would."""
    bin = pg_binaries(server.major)
    assert bin is not None
    command = [str(bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-", url]
    return subprocess.run(
        command, input=script, capture_output=True, text=True, timeout=60, encoding="utf-8"
    )


def catalog(url: str, schema: str = "bee") -> dict[str, list[Any]]:
    """All that the server knows about a schema, but for object ids and times."""
    return {name: ask(url, question, schema) for name, question in _CATALOG.items()} | {
        "version": ask(
            url, f"select number, functions from {migrate.quoted(schema)}.version order by 1"
        )
    }


_CATALOG = {
    "schema": """
        select pg_get_userbyid(nspowner), nspacl::text from pg_namespace where nspname = %s
    """,
    "relations": """
        select relname, relkind, relpersistence, reloptions, pg_get_userbyid(relowner), relacl::text
        from pg_class where relnamespace = (select oid from pg_namespace where nspname = %s)
        order by 1
    """,
    "columns": """
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               a.attstorage, a.attcompression, a.attcollation, pg_get_expr(d.adbin, d.adrelid)
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = (select oid from pg_namespace where nspname = %s) order by 1, 2
    """,
    "indexes": """
        select tablename, indexname, indexdef from pg_indexes where schemaname = %s order by 1, 2
    """,
    "constraints": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
        where connamespace = (select oid from pg_namespace where nspname = %s) order by 1, 2
    """,
    "types": """
        select typname, typtype from pg_type
        where typnamespace = (select oid from pg_namespace where nspname = %s) order by 1, 2
    """,
    "functions": """
        select proname, pg_get_function_identity_arguments(oid), pg_get_functiondef(oid),
               pg_get_userbyid(proowner), proacl::text, proconfig
        from pg_proc where pronamespace = (select oid from pg_namespace where nspname = %s)
        order by 1, 2
    """,
}
