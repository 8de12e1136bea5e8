"""Who may migrate, and what the others are told."""

from __future__ import annotations

import pytest

import bee_core as bee
from bee_pg import PgBroker, migrate
from tests.servers import PgServer

from .support import ODD_NAMES, apply, ask, installed, psql, role, steps


@pytest.mark.parametrize("schema", ["bee", ODD_NAMES[3]])
async def test_the_owner_of_an_empty_schema_may_though_he_could_not_create_it(
    pg: PgServer, schema: str
) -> None:
    url = pg.database()
    name, as_him = role(pg, url)
    ask(url, f"create schema {migrate.quoted(schema)} authorization {name}")

    done = await apply(as_him, schema)

    assert steps() == done
    async with PgBroker(as_him, schema=schema) as broker:
        assert [] == list(await broker.queues())


def test_the_owner_of_an_empty_schema_may_run_the_script(pg: PgServer) -> None:
    url = pg.database()
    name, as_him = role(pg, url)
    ask(url, f"create schema bee authorization {name}")

    run = psql(pg, as_him, migrate.script("bee"))

    assert (0, "", "") == (run.returncode, run.stdout, run.stderr)


async def test_one_without_rights_is_told_what_he_needs(pg: PgServer) -> None:
    url = pg.database()
    name, as_him = role(pg, url)

    with pytest.raises(bee.BrokerMisconfigured) as caught:
        await apply(as_him)

    assert f"role {name!r} may not migrate schema 'bee'" in str(caught.value)
    assert "permission denied for database" in str(caught.value)
    needed = f'create schema "bee" authorization "{name}"'
    assert needed in str(caught.value)
    ask(url, needed)
    assert steps() == await apply(as_him)


async def test_a_broker_of_one_without_rights_says_the_same(pg: PgServer) -> None:
    _, as_him = role(pg, pg.database())

    async with PgBroker(as_him, migrate=True) as broker:
        with pytest.raises(bee.BrokerMisconfigured, match="may not migrate schema 'bee'"):
            await broker.queues()


async def test_the_schema_of_another_cannot_be_looked_into(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)
    name, as_him = role(pg, url)

    async with PgBroker(as_him) as broker:
        with pytest.raises(bee.BrokerMisconfigured) as caught:
            await broker.queues()

    assert f"role {name!r} may not look into schema 'bee': permission denied" in str(caught.value)


async def test_one_who_may_only_use_it_has_nothing_to_do(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)
    name, as_him = role(pg, url)
    ask(url, f"grant usage on schema bee to {name}; grant select on bee.version to {name}")

    assert migrate.latest() == await installed(as_him)
    assert [] == await apply(as_him)


async def test_one_who_may_only_use_it_cannot_upgrade_it(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    name, as_him = role(pg, url)
    ask(url, f"grant usage on schema bee to {name}; grant select on bee.version to {name}")
    ask(url, "update bee.version set functions = 'others'")

    with pytest.raises(bee.BrokerMisconfigured, match="may not migrate"):
        await apply(as_him)


@pytest.mark.parametrize("table", ["version (x integer)", "message (x integer)"])
async def test_a_schema_of_another_program_is_left_alone(pg: PgServer, table: str) -> None:
    url = pg.database()
    ask(url, f"create schema bee; create table bee.{table}")

    with pytest.raises(bee.BrokerMisconfigured, match=r"not this bee's.*--schema"):
        await apply(url)

    relations = "select relname from pg_class where relnamespace = 'bee'::regnamespace"
    assert [(table.split()[0],)] == ask(url, relations)


async def test_a_standby_or_read_only_session_is_no_place_to_migrate(pg: PgServer) -> None:
    url = f"{pg.database()}&options=-c%20default_transaction_read_only%3Don"

    with pytest.raises(bee.BrokerUnavailable, match="read-only"):
        await apply(url)
