"""What stands behind a PgBroker: the server, its clock, and the schema in the database."""

from __future__ import annotations

import time

from bee_core.errors import BrokerMisconfigured
from bee_core.stored import Finding, Server
from bee_pg import migrate
from bee_pg.pool import Connection

_QUESTION = (
    b"select current_setting('server_version'), extract(epoch from clock_timestamp())::float8"
)


async def describe(connection: Connection, schema: str, shown: str) -> Server:
    """Looks at the schema and leaves it as it is, whatever the URL says."""
    await connection.execute(b"select 1")  # the first statement of a connection is slower
    asked = time.time()
    answer = await (await connection.execute(_QUESTION)).fetchone()
    answered = time.time()
    assert answer is not None
    version, now = answer
    state, findings = "", []
    try:
        found = await migrate.installed(connection, schema)
        if found is not None:
            state = f"schema {schema!r} is at version {found.version}"
        migrate.check_installed(found, schema, shown)
        if found != migrate.latest():
            how = migrate.how_to_apply(schema, shown)
            findings.append(
                Finding("schema", f"{state}, but its functions are another bee's. Run: {how}")
            )
    except BrokerMisconfigured as error:
        findings.append(Finding("schema", str(error)))
    return Server(
        name=f"PostgreSQL {version}",
        round_trip=answered - asked,
        ahead=now - (asked + answered) / 2,
        state=state,
        findings=findings,
    )
