"""The script does with psql what `apply` does without."""

from __future__ import annotations

import asyncio

import pytest

from bee_pg import migrate
from tests.servers import PgServer

from .support import ODD_NAMES, apply_now, ask, catalog, installed, one_more, psql


@pytest.fixture(params=["pg15", "pg16", "pg18"])
def server(request: pytest.FixtureRequest) -> PgServer:
    found: PgServer = request.getfixturevalue(request.param)
    return found


def run(server: PgServer, url: str, script: str) -> None:
    answer = psql(server, url, script)

    assert (0, "", "") == (answer.returncode, answer.stdout, answer.stderr)


def test_it_leaves_what_apply_leaves(server: PgServer) -> None:
    applied, scripted = server.database(), server.database()
    apply_now(applied)

    run(server, scripted, migrate.script("bee"))

    assert catalog(applied) == catalog(scripted)
    assert [] == apply_now(scripted)


@pytest.mark.parametrize("schema", ODD_NAMES)
def test_it_does_so_in_a_schema_of_any_name(pg: PgServer, schema: str) -> None:
    applied, scripted = pg.database(), pg.database()
    apply_now(applied, schema)

    run(pg, scripted, migrate.script(schema))

    assert catalog(applied, schema) == catalog(scripted, schema)


def test_it_does_so_where_a_backslash_is_an_escape(pg: PgServer) -> None:
    url = pg.database()
    old = f"{url}&options=-c%20standard_conforming_strings%3Doff"

    run(pg, old, migrate.script("back\\slash"))

    assert [(1,)] == ask(url, 'select count(*) from "back\\slash".version')


def test_it_does_so_whatever_the_default_isolation(pg: PgServer) -> None:
    url = pg.database()
    options = "-c%20default_transaction_isolation%3Dserializable"

    run(pg, f"{url}&options={options}", migrate.script("bee"))

    assert migrate.latest() == asyncio.run(installed(url))


def test_it_upgrades_as_apply_does(server: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    applied, scripted = server.database(), server.database()
    for url in (applied, scripted):
        apply_now(url)
    before = asyncio.run(installed(scripted))
    one_more(monkeypatch)
    apply_now(applied)

    script = migrate.script("bee", before)
    run(server, scripted, script)

    assert catalog(applied) == catalog(scripted)
    assert "create table message" not in script


def test_it_writes_only_the_functions_if_only_they_are_others(pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)
    before = catalog(url)
    ask(url, "update bee.version set functions = 'others'")

    script = migrate.script("bee", asyncio.run(installed(url)))
    run(pg, url, script)

    assert before == catalog(url)
    assert "create table message" not in script


def test_it_says_nothing_and_does_nothing_if_nothing_is_missing(pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)

    script = migrate.script("bee", asyncio.run(installed(url)))
    run(pg, url, script)

    assert all(line.startswith("--") for line in script.splitlines())


def test_it_refuses_a_database_that_it_was_not_made_for(pg: PgServer) -> None:
    url = pg.database()
    apply_now(url)
    before = catalog(url)

    answer = psql(pg, url, migrate.script("bee"))

    assert 3 == answer.returncode
    at = f'schema "bee" is at version {migrate.latest().version}, not at none'
    assert at in answer.stderr
    assert "bee db sql --url" in answer.stderr
    assert before == catalog(url)


def test_one_that_fails_leaves_nothing(pg: PgServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = pg.database()
    one_more(monkeypatch, "select 1 / 0;")

    answer = psql(pg, url, migrate.script("bee"))

    assert 3 == answer.returncode
    assert "division by zero" in answer.stderr
    assert [] == ask(url, "select from pg_namespace where nspname = 'bee'")
