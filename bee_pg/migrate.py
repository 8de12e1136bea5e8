"""The schema in the database: numbered migrations, and the functions that the verbs are.

`migrations/` changes tables, one numbered file and one transaction at a time, and never changes
after it was released. `sql/` holds the functions; they are written anew with every migration and
whenever their text has changed. Whoever migrates holds an advisory lock, so any number may try.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

import msgspec
from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from bee_core.errors import InvalidOption, SchemaMismatch, SchemaMissing

DEFAULT_SCHEMA = "bee"
_LONGEST = 63


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    text: str


class Installed(msgspec.Struct, frozen=True):
    """What a database has: the number of the last migration, and which functions."""

    version: int
    functions: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All of them, in order."""
    found = []
    for file in files("bee_pg").joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


@cache
def functions() -> str:
    """The text of every function."""
    found = [file for file in files("bee_pg").joinpath("sql").iterdir() if file.name[-4:] == ".sql"]
    found.sort(key=lambda file: file.name)
    return "\n".join(file.read_text(encoding="utf-8") for file in found)


def latest() -> Installed:
    """What this version of bee works with."""
    digest = hashlib.sha256(functions().encode()).hexdigest()[:16]
    return Installed(migrations()[-1].number, digest)


def check_schema(name: str) -> str:
    """The name, or InvalidOption. PostgreSQL would cut a longer one off, in silence."""
    if not isinstance(name, str) or not 0 < len(name.encode()) <= _LONGEST or "\0" in name:
        raise InvalidOption(f"schema must be a name of 1 to {_LONGEST} bytes, not {name!r}")
    return name


def quoted(schema: str) -> str:
    """The schema as it stands in a statement."""
    return '"' + schema.replace('"', '""') + '"'


async def installed(connection: AsyncConnection[TupleRow], schema: str) -> Installed | None:
    """What the database has; None if bee's schema is not there."""
    version = sql.SQL("select number, functions from {} order by number desc limit 1")
    try:
        found = await connection.execute(version.format(sql.Identifier(schema, "version")))
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    row = await found.fetchone()
    return Installed(*row) if row else None


def check_installed(found: Installed | None, schema: str, shown: str) -> None:
    """Raise unless this version of bee can work with what was found."""
    wanted = latest().version
    apply = f"bee db apply --url '{shown}'" + (
        "" if schema == DEFAULT_SCHEMA else f" --schema {schema}"
    )
    if found is None:
        raise SchemaMissing(
            f"the database has no schema {schema!r} of bee's. Run: {apply} "
            "(or let the broker do it: migrate=True, or ?migrate=1 in the URL)"
        )
    if found.version < wanted:
        raise SchemaMismatch(
            f"schema {schema!r} is at version {found.version}; this bee needs {wanted}. "
            f"Run: {apply}"
        )
    if found.version > wanted:
        raise SchemaMismatch(
            f"schema {schema!r} is at version {found.version}, and this bee knows only {wanted}: "
            "upgrade bee-jobs in this program"
        )


def pending(found: Installed | None) -> tuple[Migration, ...]:
    """The migrations that are still to be applied."""
    return tuple(m for m in migrations() if found is None or m.number > found.version)


async def apply(connection: AsyncConnection[TupleRow], schema: str) -> list[str]:
    """Bring the schema up to date; return what was done. Any number of processes may do it at once.

    The connection is in autocommit mode and its user may create the schema, or owns it.
    """
    done: list[str] = []
    while step := await _step(connection, schema):
        done.append(step)
    return done


async def _step(connection: AsyncConnection[TupleRow], schema: str) -> str | None:
    """Apply the next migration, or write the functions anew, or find that all is done."""
    async with connection.transaction():
        lock = "select pg_advisory_xact_lock(hashtextextended('bee ' || %s, 0))"
        await connection.execute(lock, [schema])
        found = await _begin(connection, schema)
        if found is not None and found.version > latest().version:
            check_installed(found, schema, "...")
        todo = pending(found)
        if todo:
            await connection.execute(todo[0].text.encode())
        elif found == latest():
            return None
        if len(todo) <= 1:
            await connection.execute(functions().encode())
        number = todo[0].number if todo else latest().version
        digest = latest().functions if len(todo) <= 1 else ""
        await connection.execute(
            "insert into version (number, functions) values (%s, %s) on conflict (number) "
            "do update set functions = excluded.functions, applied_at = excluded.applied_at",
            [number, digest],
        )
        return f"{todo[0].number:04}_{todo[0].name}" if todo else "functions"


async def _begin(connection: AsyncConnection[TupleRow], schema: str) -> Installed | None:
    """Create what migrations are recorded in, and make the schema the one that names mean."""
    name = sql.Identifier(schema)
    exists = await connection.execute("select from pg_namespace where nspname = %s", [schema])
    if await exists.fetchone() is None:
        await connection.execute(sql.SQL("create schema {}").format(name))
    await connection.execute(sql.SQL("set local search_path to {}, pg_temp").format(name))
    await connection.execute("set local check_function_bodies to off")
    await connection.execute("set local client_min_messages to warning")
    await connection.execute(_VERSION.encode())
    return await installed(connection, schema)


def script(schema: str, found: Installed | None = None) -> str:
    """All that `apply` would run, for people whose database is changed by others."""
    name = quoted(schema)
    begin = f"create schema if not exists {name};\nset local search_path to {name}, pg_temp;"
    parts = ["begin;", begin, "set local check_function_bodies to off;", _VERSION]
    for migration in pending(found):
        parts += [f"-- {migration.number:04}_{migration.name}", migration.text]
        parts.append(f"insert into version (number, functions) values ({migration.number}, '');")
    last = latest()
    parts += [functions(), f"update version set functions = '{last.functions}', "]
    parts[-1] += f"applied_at = clock_timestamp() where number = {last.version};"
    return "\n".join([*parts, "commit;", ""])


_VERSION = """
create table if not exists version (
    number     integer primary key,
    functions  text not null,
    applied_at timestamptz not null default clock_timestamp()
);
"""
