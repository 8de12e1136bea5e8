"""The schema in the database: numbered migrations, and the functions that the verbs are.

`migrations/` changes tables, one numbered file at a time, and a file never changes after it was
released. `sql/` holds the functions; they are written anew with every migration and whenever their
text has changed. They are replaced, not dropped, as workers may be calling them; one that is to
return something else has to be dropped by a migration. All that is missing is done in one
transaction, or nothing. Whoever migrates holds an advisory lock, so any number may try. `script` is
the same for people who run psql themselves.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files

import msgspec
import psycopg
from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from bee_core.errors import InvalidOption, SchemaMismatch, SchemaMissing
from bee_pg.refusals import KEY, refusal, still_locked, unreadable

DEFAULT_SCHEMA = "bee"
PATIENCE = 30.0
"""Seconds for which a migration waits for locks."""
Report = Callable[[str], object]
FUNCTIONS = "functions"
"""The name of the last step, behind those of the migrations."""
_LONGEST = 63
_LOCK = 2.0
"""Seconds for one lock: whoever needs the table too waits behind it that long, and no longer."""
_LOCKED = (errors.LockNotAvailable, errors.DeadlockDetected)


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    text: str


class Installed(msgspec.Struct, frozen=True):
    """What a database has: the last migration's number, and a digest of the functions' text."""

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
    size = len(name.encode(errors="replace")) if isinstance(name, str) else 0
    if not 0 < size <= _LONGEST or not name.isprintable() or name == "$user":
        raise InvalidOption(f"schema must be a name of 1 to {_LONGEST} bytes, not {name!r}")
    if name.startswith("pg_"):
        raise InvalidOption(f"schema {name!r}: names that begin with pg_ are PostgreSQL's own")
    return name


def quoted(schema: str) -> str:
    """The schema as it stands in a statement."""
    return '"' + schema.replace('"', '""') + '"'


async def installed(connection: AsyncConnection[TupleRow], schema: str) -> Installed | None:
    """What the database has; None if bee's schema is not there."""
    try:
        return await _read(connection, schema)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except psycopg.Error as error:
        raise unreadable(error, schema, connection.info.user) from error


async def _read(connection: AsyncConnection[TupleRow], schema: str) -> Installed | None:
    version = sql.SQL("select number, functions from {} order by number desc limit 1")
    found = await connection.execute(version.format(sql.Identifier(schema, "version")))
    row = await found.fetchone()
    return Installed(*row) if row else None


def how_to_apply(schema: str, shown: str | None) -> str:
    """The command that brings the schema up to date, as it can be pasted into a shell.

    A password is never in it: it is left to BEE_URL or bee.toml, where the command looks, too.
    """
    command = ["bee", "db", "apply"]
    hidden = shown is not None and "***" in shown
    if shown is not None and not hidden:
        command += ["--url", shown]
    if schema != DEFAULT_SCHEMA:
        command += ["--schema", schema]
    note = f"  # with BEE_URL set to {shown}, and its password" if hidden else ""
    return shlex.join(command) + note


def check_installed(found: Installed | None, schema: str, shown: str | None) -> None:
    """Raise unless this version of bee can work with what was found."""
    wanted = latest().version
    if found is None:
        raise SchemaMissing(
            f"the database has no schema {schema!r} of bee's. Let the broker create it "
            f"(migrate=True, or ?migrate=1 in the URL), or run: {how_to_apply(schema, shown)}"
        )
    if found.version < wanted:
        raise SchemaMismatch(
            f"schema {schema!r} is at version {found.version}; this bee needs {wanted}. "
            f"Run: {how_to_apply(schema, shown)}"
        )
    if found.version > wanted:
        raise SchemaMismatch(
            f"schema {schema!r} is at version {found.version}, and this bee knows only {wanted}: "
            "upgrade bee-jobs in this program"
        )


def pending(found: Installed | None) -> tuple[Migration, ...]:
    """The migrations that are still to be applied."""
    return tuple(m for m in migrations() if found is None or m.number > found.version)


def steps(found: Installed | None) -> Iterator[tuple[str, str]]:
    """What is missing, in order: the name of each step, and its statements."""
    for migration in pending(found):
        record = f"insert into version (number, functions) values ({migration.number}, '');"
        yield f"{migration.number:04}_{migration.name}", f"{migration.text}\n{record}\n"
    last = latest()
    if found != last:
        record = f"update version set functions = '{last.functions}', "
        record += f"applied_at = clock_timestamp() where number = {last.version};"
        yield FUNCTIONS, f"{functions()}\n{record}\n"


def _say_nothing(step: str) -> None:
    pass


async def apply(
    connection: AsyncConnection[TupleRow],
    schema: str,
    *,
    patience: float = PATIENCE,
    report: Report = _say_nothing,
) -> list[str]:
    """Bring the schema up to date, all of it or not at all; return the names of the steps.

    Any number of processes may do it at once. The connection is in autocommit mode and its user may
    create the schema, or owns it. `report` is told of each step before it is done. No lock of a
    table is waited for longer than a moment, so that nobody queues behind a migration that itself
    only waits. It is tried again for `patience` seconds; then BrokerUnavailable says who was in the
    way, and nothing was changed.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while True:
        try:
            if await _is_up_to_date(connection, schema):
                return []
            return await _apply(connection, schema, until, report)
        except _LOCKED as error:
            pause = random.uniform(0.25, 0.5) * _LOCK
            if loop.time() + pause >= until:
                raise await still_locked(connection, schema) from error
        except psycopg.Error as error:
            raise refusal(error, schema, connection.info.user) from error
        report("waiting for a lock")
        await asyncio.sleep(pause)


async def _is_up_to_date(connection: AsyncConnection[TupleRow], schema: str) -> bool:
    """Whether nothing is to be done. To know that, one need not be allowed to do anything."""
    try:
        async with connection.transaction():
            await connection.execute(_lock_timeout(_LOCK).encode())
            return await _read(connection, schema) == latest()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return False


async def _apply(
    connection: AsyncConnection[TupleRow],
    schema: str,
    until: float,
    report: Report,
) -> list[str]:
    done = []
    left = max(until - asyncio.get_running_loop().time(), 0.001)
    async with connection.transaction():
        # Nobody waits behind one who waits for the advisory lock.
        await connection.execute(f"{_SETTINGS}{_lock_timeout(left)}".encode())
        await connection.execute(_opening(schema).encode())
        await connection.execute(_lock_timeout(min(left, _LOCK)).encode())
        found = await _read(connection, schema)
        if found is not None and found.version > latest().version:
            check_installed(found, schema, None)
        for name, text in steps(found):
            report(name)
            await connection.execute(text.encode())
            done.append(name)
    return done


def script(schema: str, found: Installed | None = None) -> str:
    """All that `apply` would run, for people whose database is changed by others.

    It checks that the database still is what it was made for, and does all or nothing.
    """
    todo = list(steps(found))
    if not todo:
        return "-- Nothing to do: the schema is up to date.\n"
    before = "null" if found is None else str(found.version)
    parts = [
        f"-- The schema of bee: {', '.join(name for name, _ in todo)}.",
        "-- Run it with: psql -v ON_ERROR_STOP=1 -f FILE",
        "begin isolation level read committed, read write;",
        f"set local client_encoding to 'UTF8';\n{_SETTINGS}{_opening(schema)}",
        _GUARD.replace("BEFORE", before) + _lock_timeout(_LOCK),
    ]
    parts += [f"-- {name}\n\n{text}" for name, text in todo]
    return "\n".join([*parts, "commit;", ""])


def _opening(schema: str) -> str:
    """Let nobody else migrate, and make the schema, with a table of versions, what names mean.

    The owner of a schema need not be allowed to create one, not even with `if not exists`.
    """
    return f"""\
set local bee.schema to {_literal(schema)};
do $$ begin
  perform pg_advisory_xact_lock({KEY.replace("SCHEMA", "current_setting('bee.schema')")});
  if not exists (select from pg_namespace where nspname = current_setting('bee.schema')) then
    execute 'create schema ' || quote_ident(current_setting('bee.schema'));
  end if;
end $$;
set local search_path to {quoted(schema)}, pg_temp;
create table if not exists version (
    number     integer primary key,
    functions  text not null,
    applied_at timestamptz not null default clock_timestamp()
);
"""


def _lock_timeout(seconds: float) -> str:
    return f"set local lock_timeout to {max(round(seconds * 1000), 1)};\n"


def _literal(text: str) -> str:
    """As a string, whatever the server takes a backslash for."""
    plain = "'" + text.replace("'", "''") + "'"
    return "E" + plain.replace("\\", "\\\\") if "\\" in plain else plain


_SETTINGS = """\
set local client_min_messages to warning;
set local statement_timeout to 0;
set local check_function_bodies to off;
"""

_GUARD = """\
do $$ declare found integer := (select max(number) from version); begin
  if found is distinct from BEFORE then
    raise exception 'this script is not for this database: schema "%" is at version %, not at %',
      current_schema(), coalesce(found::text, 'none'), coalesce(BEFORE::text, 'none')
      using hint = 'Make one that is: bee db sql --url ...';
  end if;
end $$;
"""
