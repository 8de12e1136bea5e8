"""Hands in the data: what was deleted or put there by somebody else.

Nothing loops, no verb fails for other messages, and what is still there is not lost: a message
lives as long as its record in `msg` does, whatever else is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

import bee_core as bee
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.errors import BrokerMisconfigured
from bee_core.message import Draft, Sent, Settlement, Update
from bee_core.stored import State
from bee_core.testing.conformance.guards import verbs
from bee_redis import RedisBroker
from bee_redis.keys import KINDS
from tests.servers import RedisServer

from .support import (
    QUEUE,
    becomes,
    drained,
    ids,
    key,
    lease,
    lease_one,
    no_long_scripts,
    outcome,
    send,
    settle,
)

Deletion: TypeAlias = Callable[[RedisServer], object]


def field(part: str) -> Deletion:
    """Delete what one key holds about `a`."""

    def delete(server: RedisServer) -> None:
        name = key(part)
        if KINDS[part] == "zset":
            gone = [
                m for m in server.ask("ZRANGE", name, 0, -1) if m.split(b"\\0")[0].endswith(b"a")
            ]
            if gone:
                server.ask("ZREM", name, *gone)
        else:
            server.ask("HDEL", name, "a")

    return delete


def whole(part: str) -> Deletion:
    """Delete a key."""
    return lambda server: server.ask("DEL", key(part))


def garbled(part: str, value: bytes = b"?") -> Deletion:
    """Put a value in its place that bee did not write."""
    return lambda server: server.ask("HSET", key(part), "a", value)


LONG_SPOT = bytes(17)
CUT_OFF = {
    "msg without its body's beginning": ("msg", LONG_SPOT[:13]),
    "msg of nothing but a spot": ("msg", LONG_SPOT),
    "full msg cut off": ("msg", LONG_SPOT + b"\1" + bytes(10)),
    "msg of another kind": ("msg", LONG_SPOT + b"\2" + bytes(100)),
    "meta cut off": ("meta", bytes(56)),
    "kept msg cut off": ("kept", bytes(12 + 58)),
    "kept msg of another kind": ("kept", bytes(12) + LONG_SPOT + b"\2" + bytes(100)),
}


DELETIONS = {
    **{f"{part} of a": field(part) for part, kind in KINDS.items() if kind in ("hash", "zset")},
    **{f"all of {part}": whole(part) for part in KINDS},
    **{f"garbled {part}": garbled(part) for part in ("msg", "meta", "next", "kept")},
    **{name: garbled(part, value) for name, (part, value) in CUT_OFF.items()},
}
every_deletion = pytest.mark.parametrize("deletion", DELETIONS.values(), ids=DELETIONS)


def is_gone(server: RedisServer, id: str = "a") -> bool:
    """Whether a message has no record that is one of bee's."""
    msg = server.ask("HGET", key("msg"), id) or b""
    return len(msg) < 13 or msg.startswith(bytes(13))


async def everything_works(broker: RedisBroker) -> None:
    """No verb fails, and a worker runs what comes."""
    for verb, call in verbs(broker, QUEUE).items():
        if verb not in ("drop", "purge"):
            await asyncio.wait_for(call(), 10), verb
    for state in State:
        after = None
        for _ in range(10):
            page = await broker.scan(QUEUE, state, after=after, limit=2)
            after = page.after
            if after is None:
                break
        else:
            raise AssertionError("the pages do not end")
    await broker.send(QUEUE, [Draft("new", b"")])
    await becomes_empty(broker, {"new"})


async def becomes_empty(broker: RedisBroker, wanted: set[str]) -> None:
    """All of these come, and then the queue is empty, blocked ones and those to come included."""
    came = set(await drained(broker))
    assert wanted <= came
    assert [] == await lease(broker)


@every_deletion
async def test_a_ready_message(
    server: RedisServer, broker: RedisBroker, deletion: Deletion
) -> None:
    await send(broker, "a", "b", "c")

    deletion(server)
    gone = is_gone(server)

    kept = {"b", "c"} if server.ask("HLEN", key("msg")) > 1 else set()
    came = set(await drained(broker))
    assert kept | (set() if gone else {"a"}) == came
    await everything_works(broker)


@every_deletion
async def test_a_delayed_message(
    server: RedisServer, broker: RedisBroker, deletion: Deletion
) -> None:
    await send(broker, "a", "b", delay=0.1)
    await send(broker, "c")

    deletion(server)
    gone = is_gone(server)

    kept = {"b", "c"} if server.ask("HLEN", key("msg")) > 1 else set()
    came = set(await drained(broker))
    assert kept | (set() if gone else {"a"}) == came
    await everything_works(broker)


ENDINGS: dict[str, Disposition] = {
    "delete": Delete(),
    "archive": Archive(),
    "repeat": Reschedule(),
}


@every_deletion
@pytest.mark.parametrize("ending", [*ENDINGS, "run out"])
async def test_a_leased_message(
    server: RedisServer, broker: RedisBroker, deletion: Deletion, ending: str
) -> None:
    """Its holder ends it, or does not: either way nothing is left behind, and nothing is lost."""
    await send(broker, "a", "b", "c")
    held = await lease(broker)
    await broker.send(QUEUE, [Draft("a", b"next", if_taken=Update())])

    deletion(server)
    sound = {id for id in ("a", "b", "c") if not is_gone(server, id)}
    lost: set[str] = set()
    if ending == "run out":
        run_out(server)
    else:
        lost = await settle(broker, held, ENDINGS[ending])

    came = set(await drained(broker, between=lambda: run_out(server)))
    again = sound if ending in ("repeat", "run out") else sound & lost
    assert again <= came <= {"a", "b", "c"}
    await everything_works(broker)


def run_out(server: RedisServer) -> None:
    """Every lease there is runs out now."""
    if server.ask("EXISTS", key("leased")):
        server.ask("ZUNIONSTORE", key("leased"), 1, key("leased"), "WEIGHTS", 0)


@every_deletion
async def test_an_archived_message(
    server: RedisServer, broker: RedisBroker, deletion: Deletion
) -> None:
    for _ in range(3):  # three lives of one id
        await send(broker, "a")
        await settle(broker, await lease(broker), Archive())
    await send(broker, "b")
    await settle(broker, await lease(broker), Archive())

    deletion(server)
    await everything_works(broker)
    missing = await broker.restore(QUEUE, ["a", "b"])
    came = await drained(broker)
    while await broker.prune(QUEUE, limit=2):
        pass

    assert {"a", "b"} - missing == set(came)
    stats = await broker.stats(QUEUE)
    assert all(count >= 0 for count in stats.archived.values())
    assert [] == list((await broker.scan(QUEUE, State.ARCHIVED)).items)


@every_deletion
async def test_a_worker_goes_on(
    server: RedisServer, broker: RedisBroker, deletion: Deletion
) -> None:
    done: list[str] = []
    running = asyncio.Event()
    go_on = asyncio.Event()

    async def handle(job: str) -> None:
        if job == "slow":
            running.set()
            await go_on.wait()
        done.append(job)

    queue = bee.Queue(broker, QUEUE, str)
    worker = bee.Worker(broker, QUEUE, str, handle, poll=0.05, lease=0.3, observers=())
    async with worker.working():
        await queue.send("slow", id="a")
        await running.wait()
        await queue.send("b", id="b", delay=0.05)
        deletion(server)
        go_on.set()
        await queue.send("c", id="c")
        await becomes(lambda: "c" in done, "the worker has stopped working")
        await queue.send("d", id="d")
        await becomes(lambda: "d" in done, "the worker has stopped working")


async def test_who_held_a_message_that_was_deleted_cannot_settle_its_namesake(
    server: RedisServer, broker: RedisBroker
) -> None:
    """Else the record of the lease would outlive the message and be taken for the new one's."""
    for delay in (0.0, 0.001):
        await send(broker, "a")
        old = await lease_one(broker)
        server.ask("HDEL", key("msg"), "a")
        assert [Sent.CREATED] == await send(broker, "a", delay=delay)
        await asyncio.sleep(delay)

        assert {"a"} == await settle(broker, [old])
        new = await lease_one(broker)
        assert [] == await lease(broker)

        assert {old.receipt} == await broker.extend(QUEUE, [old.receipt], duration=60)
        assert set() == await settle(broker, [new])


async def test_a_successor_that_is_none_of_bees_does_not_halve_a_send(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    held = await lease_one(broker)
    server.ask("HSET", key("next"), "a", "short")

    drafts = [Draft("b", b"", delay=60), Draft("a", b"next", if_taken=Update())]
    assert [Sent.CREATED, Sent.BLOCKED] == list(await broker.send(QUEUE, drafts))

    await settle(broker, [held])
    assert b"next" == (await lease_one(broker)).body


async def test_many_places_deleted_at_once_are_all_found_again(
    server: RedisServer, broker: RedisBroker
) -> None:
    wanted = [f"m{n:04}" for n in range(3000)]
    for start in range(0, 3000, 1000):
        await send(broker, *wanted[start : start + 1000])
    server.ask("DEL", key("ready"))

    assert wanted == sorted(await drained(broker))


async def test_many_records_deleted_at_once_do_not_hold_up_the_server(
    server: RedisServer, broker: RedisBroker
) -> None:
    for start in range(0, 20_000, 1000):
        await send(broker, *map(str, range(start, start + 1000)))
    server.ask("DEL", key("msg"))
    await send(broker, "last", priority=-9)

    with no_long_scripts(server, broker):
        assert ["last"] == await drained(broker)


@pytest.mark.parametrize("part", [part for part in KINDS if part != "workers"])
async def test_foreign_data_at_a_key_is_named_and_left_alone_and_no_message_is_lost(
    server: RedisServer, broker: RedisBroker, part: str
) -> None:
    """A script that failed half-way would leave half its work: it must not even begin."""
    await send(broker, "a", "b", "c", "d")
    held = await lease(broker, 3)
    await broker.send(QUEUE, [Draft("a", b"next", if_taken=Update())])
    await broker.settle(QUEUE, [Settlement(held[2].receipt, Archive())])
    aside = f"{key(part)}:aside"
    if server.ask("EXISTS", key(part)):
        server.ask("RENAME", key(part), aside)
    server.ask("SET", key(part), "mine")
    before = dump(server)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        **verbs(broker, QUEUE),
        "send an update": lambda: broker.send(QUEUE, [Draft("a", b"x", if_taken=Update())]),
        "send with a delay": lambda: broker.send(QUEUE, [Draft("e", b"x", delay=60)]),
        "settle": lambda: settle(broker, held),
        "settle to the archive": lambda: settle(broker, held, Archive()),
        "settle to repeat": lambda: settle(broker, held, Reschedule()),
        "cancel to the archive": lambda: broker.cancel(QUEUE, ["a", "d"], to=Archive()),
    }
    del calls["purge"], calls["pause"]  # which would change what is looked for in the end
    named = 0
    for verb, call in calls.items():
        ended = await outcome(call())
        if isinstance(ended, BaseException):
            assert isinstance(ended, BrokerMisconfigured), (verb, ended)
            assert f"{key(part)} is a string, not a {KINDS[part]}" in str(ended)
            named += 1
            assert before == dump(server), f"{verb} failed and left something behind"
        else:
            before = dump(server)  # it does not need this key

    assert named
    assert b"mine" == server.ask("GET", key(part))
    server.ask("DEL", key(part))
    if server.ask("EXISTS", aside):
        server.ask("RENAME", aside, key(part))
    run_out(server)
    await broker.cancel(QUEUE, ["e"], to=Delete())
    came = await drained(broker, between=lambda: run_out(server))
    assert {"a", "d"} <= set(came) <= {"a", "b", "d"}


async def test_foreign_data_in_place_of_announcements_is_left_alone_and_work_goes_on(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a", "b")
    server.ask("SET", key("workers"), "mine")
    calls = verbs(broker, QUEUE)

    for verb in ("announce", "workers", "drop"):
        ended = await outcome(calls[verb]())
        assert isinstance(ended, BrokerMisconfigured), (verb, ended)
        assert f"{key('workers')} is a string, not a hash" in str(ended)

    assert b"mine" == server.ask("GET", key("workers"))
    assert ["a", "b"] == await drained(broker)


def dump(server: RedisServer) -> dict[bytes, object]:
    """Everything but the bell, the numbers that may only grow, and what expires by itself."""
    return {
        name: server.ask("DUMP", name)
        for name in sorted(server.ask("KEYS", "*"))
        if not name.endswith((b":bell", b":head", b":workers"))
    }


async def test_dropping_a_queue_spares_what_is_not_bees(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    server.ask("SET", key("archive"), "mine")

    with pytest.raises(BrokerMisconfigured, match="archive is a string, not a zset"):
        await broker.drop(QUEUE)

    assert ["a"] == ids(await lease(broker))
