"""Hostile names, ids, bodies and rows: refused before anything is sent, or back byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import BrokerError, InvalidInput, InvalidOption
from bee_core.ids import new_id
from bee_core.message import Counters, Draft, Note, Receipt, Sent, Settlement, Update
from bee_core.stored import State
from bee_pg import PgBroker
from tests.servers import PgServer

from .support import QUEUE, ask, ids, lease, lease_one, send, settle

IDS = [
    "a b",
    " ",
    "'",
    "''",
    '"',
    "\\",
    "\\\\'",
    "$1",
    "%s",
    "%(a)s",
    "%%",
    "%b",
    "{a,b}",
    "{}",
    "NULL",
    "null",
    "(a,b)",
    "E'\\x00'",
    "'); drop schema bee cascade; --",
    "$$; drop schema bee cascade; $$",
    "/* */ --",
    "🐝" * 200,
    "x" * 200,
    "a\u0301\u200d\u202e",
    "\u2028",
    "\ufffd",
    "\U0010ffff",
    "a\N{NO-BREAK SPACE}",
]
BODIES = {
    "empty": b"",
    "NUL": b"\0",
    "many NULs": b"\0" * 1000,
    "every byte": bytes(range(256)),
    "invalid UTF-8": b"\xff\xfe\xc3\x28",
    "an escape": b"\\x00\\000\\\\",
    "COPY": b"\\.\n\\N\t\r\n",
    "1 MB": bytes(range(256)) * 4096,
}
QUEUES = ["_", "a", "q" * 47, "a-b_c-9", "select", "public", "__"]
SCHEMAS = [
    'say "bee"',
    "100%",
    "%s %b %(x)s",
    "with space",
    "UPPER",
    "semi;colon'quote",
    "a.b",
    "{brace}",
    "{schema}",
    "äöü",
    "-- ",
    "\\",
    "s" * 63,
]


@pytest.fixture(scope="module")
def database(pg: PgServer) -> str:
    return pg.database()


@pytest.fixture
async def broker(database: str) -> AsyncIterator[PgBroker]:
    async with PgBroker(database, migrate=True) as broker:
        yield broker


def fresh() -> str:
    return f"h{new_id()[-12:]}"


async def there_and_back(broker: PgBroker, queue: str, draft: Draft) -> None:
    """Through every verb that carries it."""
    assert [Sent.CREATED] == list(await broker.send(queue, [draft]))
    assert [Sent.KEPT] == list(await broker.send(queue, [draft]))
    held = await lease_one(broker, queue=queue)
    assert (draft.id, draft.body) == (held.receipt.id, held.body)
    assert dict(draft.headers) == dict(held.headers)

    assert set() == await broker.extend(queue, [held.receipt], duration=60)
    follow = Draft(draft.id, draft.body[::-1], headers=draft.headers, if_taken=Update())
    assert [Sent.BLOCKED] == list(await broker.send(queue, [follow]))
    (blocked,) = (await broker.scan(queue, State.BLOCKED)).items
    assert (draft.id, follow.body) == (blocked.id, blocked.body)

    assert set() == await settle(broker, [held], Archive(), queue=queue)
    (archived,) = (await broker.scan(queue, State.ARCHIVED)).items
    assert (draft.id, draft.body) == (archived.id, archived.body)
    assert set() == await broker.cancel(queue, [draft.id], to=Archive())
    stored = await broker.get(queue, draft.id)
    assert stored is not None
    assert (draft.id, follow.body, dict(draft.headers)) == (
        stored.id,
        stored.body,
        dict(stored.headers),
    )

    assert set() == await broker.restore(queue, [draft.id])
    (again,) = await lease(broker, queue=queue)
    assert (draft.id, follow.body) == (again.receipt.id, again.body)
    assert set() == await settle(broker, [again], queue=queue)
    assert 1 == await broker.prune(queue)
    assert (0, {}) == ((await broker.stats(queue)).live, (await broker.stats(queue)).archived)


async def test_an_id_of_any_kind(broker: PgBroker) -> None:
    for id in IDS:
        await there_and_back(broker, fresh(), Draft(id, id.encode()))
    queue = fresh()
    await broker.send(queue, [Draft(id, b"") for id in IDS])
    assert IDS == ids(await lease(broker, queue=queue))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_of_any_kind(broker: PgBroker, body: bytes) -> None:
    await there_and_back(broker, fresh(), Draft("a", body))


async def test_a_queue_of_any_name(broker: PgBroker) -> None:
    for queue in QUEUES:
        await there_and_back(broker, queue, Draft("a", b"body"))
        await broker.drop(queue)


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_schema_of_any_name(database: str, schema: str) -> None:
    async with PgBroker(database, schema=schema, migrate=True) as broker:
        await there_and_back(broker, QUEUE, Draft("a", b"body"))
        await there_and_back(broker, QUEUE, Draft("b", b"body"))  # not as the first one is sent
        await broker.wait(QUEUE, timeout=0.01)
        await broker.drop(QUEUE)
    async with PgBroker(database, schema=schema) as again:
        assert [] == await again.queues()


async def test_a_schema_that_cannot_be_is_refused() -> None:
    for schema in ("s" * 64, "ä" * 32, "", "a\0b"):
        with pytest.raises(InvalidOption, match="schema"):
            PgBroker(schema=schema)


async def test_schemas_in_one_database_are_apart(database: str) -> None:
    async with (
        PgBroker(database, schema="one", migrate=True) as one,
        PgBroker(database, schema="ONE", migrate=True) as other,
    ):
        await send(one, "a")
        assert [] == await lease(other)
        assert [] == await other.queues()
        assert ["a"] == ids(await lease(one))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
good_ids = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=200)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(id=good_ids, body=st.binary(max_size=300), headers=st.dictionaries(texts, texts, max_size=5))
async def test_whatever_is_sent_comes_back(
    broker: PgBroker, id: str, body: bytes, headers: dict[str, str]
) -> None:
    await there_and_back(broker, fresh(), Draft(id, body, headers=headers))


async def test_a_note_of_any_kind(broker: PgBroker) -> None:
    for detail in ("\0", "a\0b", "🐝", "\ud800", "%s'\"\\", "x" * 100_000):
        queue = fresh()
        await send(broker, "a", queue=queue)
        held = await lease_one(broker, queue=queue)
        settlement = Settlement(held.receipt, Archive(), Note("failed", detail))
        assert set() == await broker.settle(queue, [settlement])
        stored = await broker.get(queue, "a")
        assert stored is not None
        assert stored.note is not None
        assert detail.encode("utf-8", "backslashreplace").decode() == stored.note.detail


@pytest.mark.parametrize(
    "headers", [{"a": "\ud800"}, {"\ud800": "a"}, {"a": 1}, {1: "a"}, "a", None, ["a"]], ids=repr
)
async def test_headers_that_cannot_be_stored_are_refused_before_anything_is_sent(
    headers: Any,
) -> None:
    async with PgBroker("postgresql://127.0.0.1:1/nowhere") as broker:
        with pytest.raises(InvalidInput):
            await broker.send("q", [Draft("a", b"", headers=headers)])
        with pytest.raises(InvalidInput):
            then = [Draft("a", b"", headers=headers)]
            await broker.settle("q", [Settlement(Receipt("a", 1), Delete(), then=then)])


async def test_receipts_that_cannot_be_are_lost(broker: PgBroker) -> None:
    queue = fresh()
    await send(broker, "a", queue=queue)
    await lease_one(broker, queue=queue)
    wrong = [
        Receipt("a", 2**63),
        Receipt("a", -(2**70)),
        Receipt("a\0", 1),
        Receipt("\ud800", 1),
        Receipt("", 0),
        Receipt("x" * 10_000, 1),
    ]
    assert set(wrong) == await broker.extend(queue, wrong, duration=60)
    assert set(wrong) == await broker.settle(queue, [Settlement(each, Delete()) for each in wrong])
    assert 1 == (await broker.stats(queue)).leased


async def test_marks_that_no_page_gave_are_refused(broker: PgBroker) -> None:
    queue = fresh()
    await send(broker, "a", queue=queue)
    wrong = ["", "x", "[]]", "{}", '["a"]', "[1.5]", "\0", "\ud800", "[null,[]]"]
    wrong += ["[99999999999,1,1,null]", f"[1,1,{2**70},null]", "[1,1e300,1,null]"]
    wrong += ['[null,null,null,"\\u0000"]', "[1,-1e300,1,null]"]
    for after in wrong:
        for state in State:
            try:
                await broker.scan(queue, state, after=after)
            except InvalidOption:
                continue
            except BrokerError as error:
                raise AssertionError(f"{after!r} reached the server: {error}") from error


async def test_counters_too_large_to_store_do_no_harm(broker: PgBroker) -> None:
    queue = fresh()
    await send(broker, "a", queue=queue)
    held = await lease_one(broker, queue=queue)
    back = Settlement(held.receipt, Reschedule(), counters=Counters(errors=2**40))
    with pytest.raises((BrokerError, InvalidInput)):
        await broker.settle(queue, [back])
    assert 1 == (await broker.stats(queue)).leased


# Rows changed by hand.


async def test_headers_that_bee_did_not_write_stop_nobody_else(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a", "b", "c")
        ask(url, "update bee.message set headers = '\\xff00' where id = 'b'")
        assert ["a", "b", "c"] == ids((await broker.scan(QUEUE, State.READY)).items)

        held = await lease(broker)

        assert ["a", "b", "c"] == ids(held)
        assert {} == held[1].headers
        assert ask(url, "select headers from bee.job where id = 'b'")
        assert set() == await settle(broker, held)


@pytest.mark.parametrize("counter", ["deliveries", "stalls"])
async def test_a_counter_set_by_hand_to_the_most_there_can_be_stops_nobody(
    url: str, counter: str
) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a", "b")
        await lease(broker, duration=0.01)
        await asyncio.sleep(0.05)
        ask(url, f"update bee.message set {counter} = 2147483647 where id = 'a'")

        assert ["a", "b"] == ids(await lease(broker))


@pytest.mark.parametrize("column", ["progress", "remark", "detail"])
async def test_text_that_bee_did_not_write_is_shown_as_far_as_it_can_be(
    url: str, column: str
) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a")
        ask(url, f"update bee.message set reason = 'failed', {column} = '\\xff41'")

        (stored,) = (await broker.scan(QUEUE, State.READY)).items
        note = stored.note
        shown = note.detail if note and column == "detail" else getattr(stored, column, None)
        assert "\ufffdA" == shown


async def test_a_message_deleted_by_hand_while_it_is_leased_is_lost(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a", "b")
        held = await lease(broker)
        await send(broker, "a", if_taken=Update())
        ask(url, "delete from bee.message where id = 'a'")

        receipts = [one.receipt for one in held]
        assert {receipts[0]} == await broker.extend(QUEUE, receipts, duration=60)
        assert {"a"} == await settle(broker, held)
        assert 1 == (await broker.stats(QUEUE)).blocked
        assert 1 == await broker.purge(QUEUE)
        assert 0 == (await broker.stats(QUEUE)).live


async def test_a_successor_without_a_message_does_no_harm(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a")
        held = await lease_one(broker)
        await send(broker, "a", if_taken=Update())
        ask(url, "delete from bee.message")
        assert [Sent.CREATED] == await send(broker, "a")
        (again,) = await lease(broker)
        assert again.receipt.token > held.receipt.token
        assert {"a"} == await settle(broker, [held])
        assert set() == await settle(broker, [again])
        assert ["a"] == ids(await lease(broker))  # the successor came after it, as it was to
        await broker.drop(QUEUE)
        assert [] == await broker.queues()


async def test_a_priority_that_no_queue_has_cannot_be_written(url: str) -> None:
    import psycopg

    async with PgBroker(url, migrate=True) as broker:
        await send(broker, "a")
        with pytest.raises(psycopg.errors.CheckViolation):
            ask(url, "update bee.message set priority = 10")


async def test_the_view_shows_whatever_there_is(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await broker.send(QUEUE, [Draft(str(n), body) for n, body in enumerate(BODIES.values())])
        assert len(BODIES) == len(ask(url, "select body, headers, state from bee.job"))
