"""Hostile names, ids and bodies: refused before anything is sent, or back byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bee_core.checks import check_id
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import InvalidInput
from bee_core.ids import new_id
from bee_core.message import Counters, Draft, Note, Receipt, Sent, Settlement, Update
from bee_core.stored import State
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import ids, lease, lease_one, settle

IDS = [
    "a b",
    " ",
    "'",
    '"',
    "\\",
    "{a}",
    "{",
    "}",
    "a}b{c",
    "*",
    "?",
    "[a-z]*",
    "a:b:c",
    "bee:{q}:msg",
    "🐝" * 200,
    "x" * 200,
    "a\u0301\u200d\u202e",
    "NaN",
    "-inf",
    "0",
    "$5",
    "*1",
    "+OK",
    "-ERR x",
    "]]..error('x')--[[",
    "'); redis.call('FLUSHALL') --",
    "EVAL 'return 1' 0",
    "%s%d%n",
    "../../etc/passwd",
    "\u2028",
    "\ufffd",
    "\U0010ffff",
    "None",
    "a\N{NO-BREAK SPACE}",
]
BODIES = {
    "empty": b"",
    "NUL": b"\0",
    "many NULs": b"\0" * 1000,
    "every byte": bytes(range(256)),
    "invalid UTF-8": b"\xff\xfe\xc3\x28",
    "RESP": b"*1\r\n$4\r\nPING\r\n",
    "an error": b"-ERR no\r\n",
    "Lua": b"]]..redis.call('FLUSHALL')--",
    "1 MB": bytes(range(256)) * 4096,
}
QUEUES = ["_", "a", "q" * 47, "a-b_c-9", "bell", "queues", "__"]


@pytest.fixture
async def broker(valkey: RedisServer) -> AsyncIterator[RedisBroker]:
    async with RedisBroker(valkey.url) as broker:
        yield broker


def fresh() -> str:
    return f"h{new_id()[-12:]}"


async def there_and_back(broker: RedisBroker, queue: str, draft: Draft) -> None:
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


@pytest.mark.parametrize("id", IDS)
async def test_an_id_of_any_kind(broker: RedisBroker, id: str) -> None:
    await there_and_back(broker, fresh(), Draft(id, id.encode()))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_of_any_kind(broker: RedisBroker, body: bytes) -> None:
    await there_and_back(broker, fresh(), Draft("a", body))


@pytest.mark.parametrize("queue", QUEUES)
async def test_a_queue_of_any_name(broker: RedisBroker, queue: str) -> None:
    await there_and_back(broker, queue, Draft("a", b"body"))
    await broker.drop(queue)


async def test_ids_that_contain_each_other_are_different_messages(broker: RedisBroker) -> None:
    """Also in the archive, where the lives of one id stand together."""
    queue = fresh()
    some = ["a", "ab", "a a", "A", "aa", "a\N{COMBINING ACUTE ACCENT}", "á"]
    for _ in range(3):
        await broker.send(queue, [Draft(id, id.encode()) for id in some])
        await settle(broker, await lease(broker, queue=queue), Archive(), queue=queue)

    assert 21 == len((await broker.scan(queue, State.ARCHIVED)).items)
    assert set() == await broker.restore(queue, ["a", "aa"])
    assert 19 == len((await broker.scan(queue, State.ARCHIVED)).items)
    assert ["a", "aa"] == ids(await lease(broker, queue=queue))
    assert 17 == await broker.prune(queue, keep=2)


good_ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
quickly = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@quickly
@given(id=good_ids, body=st.binary(max_size=300), headers=st.dictionaries(texts, texts, max_size=5))
async def test_whatever_is_good_comes_back(
    broker: RedisBroker, id: str, body: bytes, headers: dict[str, str]
) -> None:
    await there_and_back(broker, fresh(), Draft(id, body, headers=headers))


@quickly
@given(id=st.text(max_size=250))
async def test_whatever_is_not_good_is_refused_before_anything_is_sent(
    broker: RedisBroker, id: str
) -> None:
    try:
        check_id(id)
    except InvalidInput:
        broker = RedisBroker("redis://127.0.0.1:1")  # where nobody listens
        for call in (
            lambda: broker.send("q", [Draft("good", b""), Draft(id, b"")]),
            lambda: broker.get("q", id),
            lambda: broker.cancel("q", [id], to=Delete()),
            lambda: broker.restore("q", [id]),
            lambda: broker.lease("q", limit=1, duration=1, holder=id),
        ):
            with pytest.raises(InvalidInput):
                await call()
    else:
        await there_and_back(broker, fresh(), Draft(id, b"body"))


@pytest.mark.parametrize(
    "headers",
    [{"a": "\ud800"}, {"\udfff": "a"}, {1: "a"}, {"a": 1}, {"a": None}, ["a"], "a"],
    ids=ascii,
)
async def test_headers_that_cannot_be_stored_are_refused_before_anything_is_sent(
    headers: Any,
) -> None:
    async with RedisBroker("redis://127.0.0.1:1") as broker:
        with pytest.raises(InvalidInput):
            await broker.send("q", [Draft("a", b"", headers=headers)])
        with pytest.raises(InvalidInput):
            then = [Draft("a", b"", headers=headers)]
            await broker.settle("q", [Settlement(Receipt("a", 1), Delete(), then=then)])


NOTES = [
    "",
    "\0",
    "plain",
    "x" * 100_000,
    "ä🐝\n\t\x1b[31m",
    "'];return 1--",
    "\N{REPLACEMENT CHARACTER}",
]


@pytest.mark.parametrize("detail", NOTES, ids=range(len(NOTES)))
async def test_a_note_of_any_kind(broker: RedisBroker, detail: str) -> None:
    queue = fresh()
    await broker.send(queue, [Draft("a", b"body")])
    for disposition in (Reschedule(), Archive()):
        held = await lease_one(broker, queue=queue)
        settlement = Settlement(held.receipt, disposition, Note("failed", detail))
        assert set() == await broker.settle(queue, [settlement])

        stored = await broker.get(queue, "a")
        assert stored is not None
        assert (Note("failed", detail), b"body") == (stored.note, stored.body)

    assert {"failed": 1} == (await broker.stats(queue)).archived


async def test_a_note_with_half_a_character_does_not_keep_a_message_from_being_settled(
    broker: RedisBroker,
) -> None:
    """Such text comes from file names: an error that could not be noted would be for ever."""
    queue = fresh()
    await broker.send(queue, [Draft("a", b"")])
    held = await lease_one(broker, queue=queue)

    note = Note("failed", "no such file: b\udcff")
    assert set() == await broker.settle(queue, [Settlement(held.receipt, Archive(), note)])

    stored = await broker.get(queue, "a")
    assert stored is not None
    assert Note("failed", "no such file: b\\udcff") == stored.note


@pytest.mark.parametrize(
    "receipt",
    [
        Receipt("a", 0),
        Receipt("a", -1),
        Receipt("a", 2**63),
        Receipt("a", 10**40),
        Receipt("", 1),
        Receipt("\ud800", 1),
        Receipt("a\0b", 1),
        Receipt("x" * 10_000, 1),
    ],
    ids=range(8),
)
async def test_a_receipt_that_cannot_be_is_a_lost_one(
    broker: RedisBroker, receipt: Receipt
) -> None:
    queue = fresh()
    await broker.send(queue, [Draft("a", b"")])
    held = await lease_one(broker, queue=queue)

    assert {receipt} == await broker.extend(queue, [receipt, held.receipt], duration=60)
    for disposition in (Delete(), Archive(), Reschedule()):
        settlement = Settlement(receipt, disposition, counters=Counters(errors=1))
        assert {receipt} == await broker.settle(queue, [settlement])
    assert set() == await settle(broker, [held], queue=queue)
