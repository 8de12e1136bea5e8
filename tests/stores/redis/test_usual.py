"""The short cuts in front of `lib.lua` do what the scripts behind them do."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from bee_core.disposition import Delete, Reschedule
from bee_core.errors import BrokerMisconfigured
from bee_core.ids import new_id
from bee_core.message import Counters, Draft, Receipt, Sent, Settlement
from bee_core.stored import State
from bee_redis import RedisBroker
from bee_redis.scripts import SCRIPTS, Script
from tests.servers import RedisServer

from .support import QUEUE, ids, key, lease, send, settle

VERBS = ("lease", "settle")


def take_the_long_way(patch: pytest.MonkeyPatch) -> None:
    for verb in VERBS:
        script, called = Script(verb), f"local usual = {verb}_usual(".encode()
        assert called in script.text
        script.text = script.text.replace(called, called.replace(b"= ", b"= false and "))
        script.sha = hashlib.sha1(script.text).hexdigest().encode()
        patch.setitem(SCRIPTS, verb, script)


def pause(broker: RedisBroker) -> float:
    return broker._due[QUEUE] - asyncio.get_running_loop().time()


async def told(server: RedisServer, broker: RedisBroker, *, limit: int) -> list[object]:
    """Everything that can be seen of a few messages on their way, but for times and tokens."""
    server.ask("FLUSHALL")
    seen: list[object] = []
    drafts = [Draft(f"m{n}", b"x" * n, priority=n % 3, headers={"n": str(n)}) for n in range(12)]
    await broker.send(QUEUE, [*drafts, Draft("later", b"", delay=60)])
    while found := await lease(broker, limit):
        seen += [(one.receipt.id, one.body, one.headers, one.counters) for one in found]
        tokens = [one.receipt.token for one in found]
        assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
        stats = await broker.stats(QUEUE)
        seen.append((stats.ready, stats.leased, stats.delayed, stats.token == tokens[-1]))
        page = await broker.scan(QUEUE, State.LEASED)
        seen += [(one.id, one.priority, one.counters, one.holder, one.note) for one in page.items]
        seen += [server.ask("LLEN", key("bell")), pause(broker) > 0]
        assert {one.leased_at for one in found} == {one.leased_at for one in found[:1]}
        seen.append(await settle(broker, [*found, found[0]]))  # named twice: once it is lost
        seen.append(await settle(broker, found))
        seen += [server.ask("HLEN", key(part)) for part in ("msg", "meta")]
    seen += [server.ask("EXISTS", key("bell")), 50 < pause(broker) < 61]
    return seen


@pytest.mark.parametrize("limit", [1, 5, 12, 100])
async def test_the_short_way_and_the_long_way_lead_to_the_same(
    server: RedisServer, broker: RedisBroker, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = await told(server, broker, limit=limit)
    take_the_long_way(monkeypatch)

    assert short == await told(server, broker, limit=limit)


def send_as_many(patch: pytest.MonkeyPatch) -> None:
    """The short one says that none of them is for it."""
    script = Script("send_one")
    script.text = b"#!lua\nreturn ''"
    script.sha = hashlib.sha1(script.text).hexdigest().encode()
    patch.setitem(SCRIPTS, "send_one", script)


async def sent(server: RedisServer, broker: RedisBroker) -> list[object]:
    """Everything that is stored of a few plain messages sent one by one, but for times."""
    server.ask("FLUSHALL")
    broker._known.clear()
    seen: list[object] = []
    for id in ("a", new_id(), "a", "c"):
        seen += await send(broker, id)
        seen += [server.ask("LLEN", key("bell")), server.ask("HGET", key("head"), "created")]
    first = int(server.ask("HGET", key("head"), "number"))
    for one in (page := await broker.scan(QUEUE, State.READY)).items:
        assert 0 < one.incarnation - round(one.due_at * 1e6) < 1000
        assert one.sent_at == one.due_at
        seen.append((len(one.id), one.body, one.headers, one.priority, one.counters, one.key))
    assert first == page.items[-1].incarnation
    server.ask("HSET", key("meta"), "d", bytes(100))  # it outlived its message
    seen += await send(broker, "d")
    return [*seen, server.ask("HEXISTS", key("meta"), "d"), await broker.queues()]


async def test_one_draft_is_stored_like_one_of_many(
    server: RedisServer, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortest = await sent(server, broker)
    send_as_many(monkeypatch)

    assert shortest == await sent(server, broker)


@pytest.mark.parametrize("field", ["number", "created"])
@pytest.mark.parametrize("spoilt", ["nan", "-nan", "inf", "-inf", "1e300", "9007199254740993", "x"])
async def test_one_draft_is_found_again_whatever_stands_in_head(
    server: RedisServer, broker: RedisBroker, field: str, spoilt: str
) -> None:
    server.ask("HSET", key("head"), field, spoilt)

    assert [Sent.CREATED] == await send(broker, "a")
    assert [Sent.CREATED] == await send(broker, "b")

    assert ["a", "b"] == ids(await lease(broker))
    assert 2 == int(server.ask("HGET", key("head"), "created"))


@pytest.mark.parametrize("part", ["ready", "msg", "meta", "head", "bell"])
async def test_one_draft_leaves_nothing_behind_where_somebody_elses_data_is(
    server: RedisServer, broker: RedisBroker, part: str
) -> None:
    await send(broker, "a")
    server.ask("DEL", *(key(each) for each in ("ready", "msg", "meta", "head", "bell")))
    server.ask("SET", key(part), "theirs")

    with pytest.raises(BrokerMisconfigured, match="foreign data"):
        await send(broker, "b")

    assert [key(part).encode()] == server.ask("KEYS", "bee:{*")


async def test_what_was_leased_before_is_leased_among_what_was_not(broker: RedisBroker) -> None:
    await send(broker, "a", "b")
    (first,) = await lease(broker, 1)
    given_back = Settlement(first.receipt, Reschedule(front=True), counters=Counters(errors=1))
    await broker.settle(QUEUE, [given_back])

    found = await lease(broker)

    assert ["a", "b"] == ids(found)
    assert [Counters(deliveries=2, errors=1), Counters(deliveries=1)] == [x.counters for x in found]
    assert found[0].receipt.token + 1 == found[1].receipt.token > first.receipt.token


@pytest.mark.parametrize("token", [-1, 0, 1, 2**53, 2**64 - 1, 2**64, 2**80])
async def test_a_token_that_cannot_be_is_lost(broker: RedisBroker, token: int) -> None:
    await send(broker, "a", "b")
    held = await lease(broker)
    receipts = [Receipt("a", token), held[1].receipt]

    lost = await broker.settle(QUEUE, [Settlement(one, Delete()) for one in receipts])

    assert {receipts[0]} == lost
    assert set() == await settle(broker, held[:1])


async def test_a_lease_that_ran_out_unseen_is_settled_all_the_same(broker: RedisBroker) -> None:
    await send(broker, "a", "b", "c")
    held = await lease(broker, 2, duration=0.001)
    page = await broker.scan(QUEUE, State.READY)  # which moves what has run out

    assert {"a", "b", "c"} == set(ids(page.items))
    assert set() == await settle(broker, held)
    assert ["c"] == ids(await lease(broker))
