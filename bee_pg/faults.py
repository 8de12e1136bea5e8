"""From psycopg's errors to bee's: what happened, and whether anything was done."""

from __future__ import annotations

import psycopg

from bee_core.errors import (
    BrokerError,
    BrokerFull,
    BrokerLocked,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
    SchemaMissing,
)

_AGAIN = frozenset({"40001", "40P01"})
"""A serialization failure and a deadlock: rolled back, and will work when tried again."""
_FULL = frozenset({"53100", "53200"})
"""No disk, no memory."""
_PASSES = frozenset({"53300", "53400", "57014", "25006", "55000"})
"""Too many connections, or some other limit; cancelled; a standby; not ready."""
_NO_SCHEMA = frozenset({"3F000", "42P01", "42883", "42704"})
"""A schema, table, function or type that is not there."""

_GRANTS = (
    "Whoever works needs: grant usage on schema {schema}; grant select, insert, update, delete on "
    "all tables in schema {schema}; grant usage on all sequences in schema {schema}; to take in a "
    "queue of another store, also grant update on sequence {schema}.token. Less will do for "
    "others: docs/production/postgres.md"
)


def translate(error: psycopg.Error, *, schema: str = "") -> BrokerError:
    """The BrokerError for an error of a statement that had been sent."""
    state = error.sqlstate or ""
    text = str(error).strip() or repr(error)
    if state in _FULL:
        return BrokerFull(text)
    if state in _NO_SCHEMA:
        return SchemaMissing(f"schema {schema!r} is not complete: {text}. Run: bee db apply")
    if state == "42501":
        return BrokerMisconfigured(f"{text}. {_GRANTS.format(schema=schema)}")
    if state == "55P03":
        return BrokerLocked(text)
    if state in _AGAIN or state in _PASSES:
        return BrokerUnavailable(text)  # the statement was rolled back
    if not state or state[:2] in ("08", "57", "58", "XX"):
        return OutcomeUnknown(f"the answer was lost: {text}")
    return BrokerError(f"{text} (SQLSTATE {state})")


def cannot_connect(error: BaseException) -> BrokerError:
    """The BrokerError for a connection that did not come about."""
    text = str(error).strip() or repr(error)
    return BrokerUnavailable(f"cannot connect to PostgreSQL: {text}")


def was_overtaken(error: BaseException) -> bool:
    """Whether two statements have met, and this one, sent again, should succeed."""
    return isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in _AGAIN
