"""What an operator should know about a database, from the row of `sql/examine.sql`."""

from __future__ import annotations

from psycopg.rows import TupleRow

from bee_core.stored import Finding

OLD = 60.0
"""Seconds after which a transaction is worth a word."""
_MANY_TRANSACTIONS = 1_000_000
_MANY_DEAD = 10_000
_DEAD_TO_LIVE = 10
_FULL = 0.5

_WHY = "while it is open no dead row can be removed, and every queue of this server slows down"


def findings(row: TupleRow) -> list[Finding]:
    """What is wrong; each says what to do."""
    transaction, session, prepared, name, slot, slot_age, live, dead, vacuumed, full = row
    found = []
    if transaction is not None and transaction > OLD:
        found.append(
            Finding(
                "old transaction",
                f"open for {transaction:.0f} s ({session}): {_WHY}. End it, or "
                "set idle_in_transaction_session_timeout",
            )
        )
    if prepared is not None and prepared > OLD:
        found.append(
            Finding(
                "prepared transaction",
                f"{name!r} has been prepared for {prepared:.0f} s: {_WHY}. "
                "COMMIT PREPARED or ROLLBACK PREPARED it",
            )
        )
    if slot_age is not None and slot_age > _MANY_TRANSACTIONS:
        found.append(
            Finding(
                "replication slot",
                f"{slot!r} is {slot_age} transactions behind: {_WHY}. See why its consumer "
                "does not go on, or drop it",
            )
        )
    if dead is not None and dead > max(_MANY_DEAD, _DEAD_TO_LIVE * live):
        last = "never" if vacuumed is None else f"{vacuumed:.0f} s ago"
        found.append(
            Finding(
                "dead rows",
                f"{dead} dead rows beside {live} live ones; last vacuumed {last}. See whether "
                "autovacuum runs and what holds it back",
            )
        )
    if full is not None and full > _FULL:
        found.append(
            Finding(
                "notifications",
                f"the server's queue of notifications is {full:.0%} full: some session listens "
                "and stays in a transaction. At 100 % commits with NOTIFY fail",
            )
        )
    return found
