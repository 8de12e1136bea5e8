"""Applying: all or nothing, as often as one likes, by as many as like."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import bee_core as bee
from bee_core.disposition import Delete
from bee_core.message import Draft, Sent, Settlement
from bee_pg import PgBroker, migrate
from tests.servers import PgBouncer, PgServer

from .support import ODD_NAMES, apply, apply_now, ask, catalog, installed, one_more, steps

PROCESSES = 10
REWRITES = 10


@contextmanager
def process(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """One that is about to migrate."""
    command = [sys.executable, "-m", "tests.stores.pg_migrations.program", url, *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as migrating:  # type: ignore[call-overload]
        try:
            yield migrating
        finally:
            migrating.kill()


def read(migrating: subprocess.Popen[str]) -> str:
    assert migrating.stdout is not None
    return migrating.stdout.readline().strip()


def begin(migrating: subprocess.Popen[str]) -> None:
    assert migrating.stdin is not None
    migrating.stdin.write("\n")
    migrating.stdin.flush()


async def test_an_empty_database_gets_all_of_it_and_then_there_is_nothing_to_do(
    pg: PgServer,
) -> None:
    url = pg.database()
    told: list[str] = []

    first = await apply(url, report=told.append)
    second = await apply(url)

    assert steps() == first == told
    assert [] == second
    assert migrate.latest() == await installed(url)


async def test_a_library_with_one_migration_more_applies_just_that(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    more = one_more(monkeypatch)

    done = await apply(url)

    assert [more, migrate.FUNCTIONS] == done
    assert migrate.latest() == await installed(url)
    assert [] == ask(url, "select extra from bee.message")


async def test_functions_of_another_bee_are_written_anew(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)
    before = catalog(url)
    other = "create or replace function bee.queues() returns setof text language sql as "
    ask(url, other + "'select null::text'")
    ask(url, "update bee.version set functions = 'others'")

    done = await apply(url)

    assert [migrate.FUNCTIONS] == done
    assert before == catalog(url)


async def test_workers_go_on_while_functions_are_written_anew(pg: PgServer) -> None:
    url = pg.database()
    await apply(url)
    stop = asyncio.Event()

    async def work() -> int:
        done = 0
        async with PgBroker(url) as broker:
            while not stop.is_set():
                await broker.send("mail", [Draft(f"{done}", b"x")])
                [leased] = await broker.lease("mail", limit=1, duration=60, holder="me")
                await broker.settle("mail", [Settlement(leased.receipt, Delete())])
                done += 1
        return done

    working = asyncio.create_task(work())
    for _ in range(REWRITES):
        await asyncio.to_thread(ask, url, "update bee.version set functions = 'others'")
        assert [migrate.FUNCTIONS] == await apply(url)
    stop.set()

    assert await working > 0


def test_ten_processes_may_migrate_at_once(pg: PgServer) -> None:
    url = pg.database()
    with ExitStack() as stack:
        crowd = [stack.enter_context(process(url)) for _ in range(PROCESSES)]
        assert {"ready"} == {read(each) for each in crowd}
        for each in crowd:
            begin(each)

        said = [[line.strip() for line in each.stdout or ()] for each in crowd]

        codes = [each.wait(30) for each in crowd]

    assert [0] * PROCESSES == codes
    assert ["done 0"] * (PROCESSES - 1) == sorted(lines[-1] for lines in said)[:-1]
    assert [f"step {name}" for name in steps()] == [
        line for lines in said for line in lines if line.startswith("step")
    ]
    assert [(1,)] == ask(url, "select count(*) from bee.version")


def test_a_process_killed_half_way_leaves_nothing(pg: PgServer) -> None:
    url = pg.database()
    with process(url, "--halt", migrate.FUNCTIONS) as migrating:
        assert "ready" == read(migrating)
        begin(migrating)
        assert [f"step {name}" for name in steps()] == [read(migrating) for _ in steps()]
        open_ = "select count(*) from pg_stat_activity where datname = current_database() "
        assert [(1,)] == ask(url, open_ + "and state = 'idle in transaction'")

        migrating.kill()

    done = apply_now(url)

    assert steps() == done


def test_an_upgrade_killed_half_way_leaves_what_there_was(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    apply_now(url)
    before = catalog(url)
    with process(url, "--more", "--halt", migrate.FUNCTIONS) as migrating:
        assert "ready" == read(migrating)
        begin(migrating)
        more = f"step {migrate.latest().version + 1:04}_more"
        assert [more, f"step {migrate.FUNCTIONS}"] == [read(migrating), read(migrating)]

        migrating.kill()

    assert before == catalog(url)
    more = one_more(monkeypatch)
    assert [more, migrate.FUNCTIONS] == apply_now(url)


async def test_a_migration_that_fails_takes_the_others_back_with_it(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    one_more(monkeypatch, "create table fine (); select 1 / 0;")

    with pytest.raises(bee.BrokerError, match="division by zero"):
        await apply(url)

    assert [] == ask(url, "select from pg_namespace where nspname = 'bee'")


async def test_a_statement_timeout_of_the_role_does_not_end_a_long_migration(
    pg: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pg.database()
    await apply(url)
    one_more(monkeypatch, "select pg_sleep(0.6);")

    await apply(f"{url}&options=-c%20statement_timeout%3D500")

    assert migrate.latest() == await installed(url)


@pytest.mark.parametrize("schema", ODD_NAMES)
async def test_a_schema_may_have_any_name(pg: PgServer, schema: str) -> None:
    url = pg.database()

    await apply(url, schema)

    async with PgBroker(url, schema=schema) as broker:
        assert [Sent.CREATED] == list(await broker.send("mail", [Draft("a", b"x")]))
    assert [(schema,)] == ask(
        url, "select nspname from pg_namespace where nspname !~ '^(pg_|public|information)'"
    )


async def test_two_schemas_of_one_database_know_nothing_of_each_other(pg: PgServer) -> None:
    url = pg.database()
    await apply(url, "one")

    assert None is await installed(url, "two")
    assert steps() == await apply(url, "two")


async def test_a_broker_migrates_if_it_is_told_to(pg: PgServer) -> None:
    url = pg.database()

    async with PgBroker(url, migrate=True) as broker:
        assert [] == list(await broker.queues())


async def test_a_url_can_tell_it_to(pg: PgServer) -> None:
    url = pg.database()

    async with bee.connect(f"{url}&migrate=1&schema=jobs") as broker:
        assert [] == list(await broker.queues())

    assert migrate.latest() == await installed(url, "jobs")


async def test_it_works_through_a_pooler_of_transactions(pgbouncer: PgBouncer) -> None:
    url = pgbouncer.database()

    assert steps() == await apply(url)

    assert migrate.latest() == await installed(url)
