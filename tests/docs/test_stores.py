"""The pages about what is in a store name everything that is there, and nothing else."""

from __future__ import annotations

import re

import msgspec
import pytest

import bee_core as bee
from bee_core import codec, group, handlers, queue, ticks
from bee_pg import PgBroker
from bee_redis import keys
from tests.servers import PgServer

from .markdown import ROOT, blocks, sections, tables

REFERENCE = ROOT / "docs" / "reference"
SQL, WIRE = sections(REFERENCE / "sql.md"), sections(REFERENCE / "wire.md")
COLUMNS = """
    select c.relname, array_agg(a.attname order by a.attnum)
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    where not a.attisdropped and c.relnamespace = 'bee'::regnamespace
      and (c.relkind in ('r', 'v') or c.relname = 'episode') and c.relpersistence <> 't'
    group by 1
"""


@pytest.fixture
async def database(pg: PgServer) -> str:
    """A database with bee's schema; its name."""
    url = pg.database()
    async with PgBroker(url, migrate=True) as broker:
        await broker.send("mail", [bee.Draft("an-id", b"{}")])
    return re.search(r"/(bee_\w+)\?", url)[1]  # type: ignore[index]


def column(text: str, number: int = 0) -> list[str]:
    return [row[number].strip("`") for row in list(tables(text))[1:]]


async def test_every_column_of_every_table_is_on_the_page(pg: PgServer, database: str) -> None:
    found = dict(pg.ask(COLUMNS, database=database))

    assert found == {name: column(SQL[name]) for name in found}
    assert {"Tables and columns in PostgreSQL", "Verbs", "Sending from SQL"} == set(SQL) - set(
        found
    )


async def test_the_statements_of_the_page_run(pg: PgServer, database: str) -> None:
    statements = [block.text for block in blocks(REFERENCE / "sql.md") if block.language == "sql"]

    for text in statements:
        for statement in filter(str.strip, text.split(";\n")):
            pg.ask(statement, database=database)

    assert [("welcome-ada", "ready")] == pg.ask(
        "select id, state from bee.job where id like 'welcome%'", database=database
    )
    assert len(statements) >= 4


def test_every_key_is_on_the_page_with_its_kind() -> None:
    rows = {row[0].strip("`"): row[1] for row in tables((REFERENCE / "redis-keys.md").read_text())}
    del rows["key"]
    wanted = dict(
        zip(map(bytes.decode, keys.keys("bee", "mail")), keys.KINDS.values(), strict=True)
    )

    beside = {
        keys.registry("bee").decode(): "set",
        keys.recall("bee", "mail", "*").decode(): "list",
    }
    assert wanted | beside == rows


def test_every_header_of_bees_own_is_on_the_page() -> None:
    listed = {name for name in column(WIRE["Headers"]) if name.startswith("bee-")} - {"bee-kind"}

    assert {queue.POLICY_HEADER, group.AWAITS_HEADER} == listed
    assert f"`{codec.KIND_HEADER}`" in WIRE["Headers"]
    assert f"| `{handlers.FAILURE}` | the" in WIRE["Headers"]
    assert f"| `{ticks.SCHEDULE}` | the" in WIRE["Headers"]


def test_the_limits_on_the_wire_are_as_printed() -> None:
    assert codec.VERSION == 1
    assert f"{queue.MAX_BYTES:,} bytes" in WIRE["The body"]
    assert f"nested {codec.DEEPEST} deep" in WIRE["The body"]


def test_what_is_sent_by_hand_is_a_job() -> None:
    class SendEmail(bee.Job):
        to: str
        subject: str = "hello"

    text = (REFERENCE / "sql.md").read_text()
    body = re.search(r"convert_to\('(.*)', 'UTF8'\)", text)[1]  # type: ignore[index]

    assert SendEmail("ada@example.org") == bee.JsonCodec(SendEmail).decode(body.encode())
    assert msgspec.json.decode(body)["v"] == codec.VERSION
