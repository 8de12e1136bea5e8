"""Why a database did not let itself be migrated, and what to do about it."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from bee_core.errors import BrokerError, BrokerMisconfigured, BrokerUnavailable
from bee_pg.faults import translate

KEY = "hashtextextended('bee ' || SCHEMA, 0)"
"""The key of the advisory lock that whoever migrates a schema holds."""

_NOT_OURS = (
    errors.DuplicateTable,
    errors.DuplicateObject,
    errors.DuplicateFunction,
    errors.WrongObjectType,
    errors.UndefinedColumn,
)


def unreadable(error: psycopg.Error, schema: str, role: str) -> BrokerError:
    """For one who wanted to know which version there is."""
    if isinstance(error, errors.InsufficientPrivilege):
        who = f"role {role!r} may not look into schema {schema!r}"
        return BrokerMisconfigured(f"{who}: {_primary(error)}")
    return refusal(error, schema, role)


def refusal(error: psycopg.Error, schema: str, role: str) -> BrokerError:
    """For one who wanted to migrate."""
    text = _primary(error)
    if isinstance(error, errors.InsufficientPrivilege):
        create = sql.SQL("create schema {} authorization {}")
        statement = create.format(sql.Identifier(schema), sql.Identifier(role)).as_string()
        return BrokerMisconfigured(
            f"role {role!r} may not migrate schema {schema!r}: {text}. It must own the schema "
            f"({statement}) or be allowed to create it; or let somebody run what `bee db sql` "
            "prints"
        )
    if isinstance(error, _NOT_OURS):
        return BrokerMisconfigured(
            f"schema {schema!r} holds something that is not this bee's: {text}. Choose another "
            "name: --schema, or ?schema= in the URL"
        )
    return translate(error, schema=schema)


async def still_locked(connection: AsyncConnection[TupleRow], schema: str) -> BrokerError:
    """For one who waited for a lock in vain: it names those who have held one for longest."""
    try:
        found = await connection.execute(_HOLDERS.encode(), [schema, schema])
        rows = await found.fetchall()
    except psycopg.Error:
        rows = []
    who = [f"process {pid} ({name}, {state}, for {age} s)" for pid, name, state, age in rows]
    return BrokerUnavailable(
        f"schema {schema!r} was not changed, because others hold locks on it"
        + (f": {'; '.join(who)}" if who else "")
        + ". Try again when their transactions have ended"
    )


def _primary(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip() or repr(error)


_HOLDERS = f"""
select a.pid, coalesce(nullif(a.application_name, ''), a.usename, 'unknown'),
       coalesce(a.state, 'unknown'),
       coalesce(round(extract(epoch from clock_timestamp() - min(a.xact_start))), 0)::int
from pg_locks l join pg_stat_activity a using (pid)
where l.granted and a.pid <> pg_backend_pid()
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and (l.relation in (select c.oid from pg_class c where c.relnamespace = (
         select n.oid from pg_namespace n where n.nspname = %s))
       or l.locktype = 'advisory' and l.objsubid = 1
         and (l.classid::bigint << 32) | l.objid::bigint = {KEY.replace("SCHEMA", "%s")})
group by 1, 2, 3 order by min(a.xact_start) limit 3
"""
