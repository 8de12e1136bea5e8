"""Somebody else writes into the store: garbage in any key, in any field, in any column.

What bee cannot read it may put aside or forget. But nobody else's message is lost, no verb fails
with anything but bee's own errors, and the queue goes on.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import bee_core as bee
from bee_core.broker import Store
from bee_redis.keys import KINDS
from tests.servers import RedisServer

QUEUE = "q"
VICTIM, GOOD = "victim", ("good-1", "good-2", "good-3")


async def fill(broker: Store) -> None:
    """A queue with a message in every state; each of them a victim, but for the good ones."""
    draft, lease = bee.Draft, broker.lease
    await broker.send(QUEUE, [draft(f"{VICTIM}-{n}", b"old") for n in range(3)])
    first = await lease(QUEUE, limit=3, duration=60, holder="w")
    archive = [bee.Settlement(one.receipt, bee.Archive(), bee.Note("failed", "x")) for one in first]
    await broker.settle(QUEUE, archive)
    await broker.send(QUEUE, [draft(f"{VICTIM}-0", b"again")])
    again = await lease(QUEUE, limit=1, duration=60, holder="w")
    await broker.settle(QUEUE, [bee.Settlement(again[0].receipt, bee.Archive())])
    await broker.send(
        QUEUE,
        [
            draft(f"{VICTIM}-held", b"", priority=9),
            draft(f"{VICTIM}-over", b"", priority=8),
            draft(f"{VICTIM}-keyed", b"", priority=7, key="k"),
            draft(f"{VICTIM}-tried", b"", priority=6),
        ],
    )
    held = await lease(QUEUE, limit=4, duration=60, holder="w")
    names = {one.receipt.id: one.receipt for one in held}
    await broker.extend(QUEUE, [names[f"{VICTIM}-over"]], duration=0.001)
    await broker.settle(
        QUEUE,
        [
            bee.Settlement(
                names[f"{VICTIM}-tried"],
                bee.Reschedule(),
                bee.Note("failed"),
                bee.Counters(errors=1),
            )
        ],
    )
    await broker.send(
        QUEUE,
        [
            draft(f"{VICTIM}-held", b"next", if_taken=bee.Update()),
            draft(f"{VICTIM}-parked", b"", key="k"),
            draft(f"{VICTIM}-ready", b""),
            draft(f"{VICTIM}-delayed", b"", delay=60),
            draft(f"{VICTIM}-parent", b"", delay=60, awaits=2),
            draft(f"{VICTIM}-child", b"", reports_to=f"{VICTIM}-parent"),
            *(draft(id, b"good", headers={"a": "b"}) for id in GOOD),
        ],
    )
    await broker.announce(QUEUE, "w", about="x", duration=60)


def garbage(chance: random.Random, like: bytes = b"") -> bytes:
    """Bytes of any length; or like those that are there, but for some of them."""
    if like and chance.random() < 0.6:
        damaged = bytearray(like)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 127, 255))
        return bytes(damaged[: chance.choice((len(damaged), chance.randrange(len(damaged) + 1)))])
    return chance.randbytes(chance.choice((0, 1, 8, 31, 57, 100, 300)))


def damage_redis(server: RedisServer, prefix: str, chance: random.Random) -> str:
    """Write into one key, and say what was done."""
    part = chance.choice(list(KINDS))
    key = f"{prefix}:{{{QUEUE}}}:{part}"
    match KINDS[part]:
        case "hash":
            fields = server.ask("HKEYS", key)
            mine = [field for field in fields if is_victim(field, part)]
            field = chance.choice(mine) if mine and chance.random() < 0.9 else garbage(chance)
            value = garbage(chance, server.ask("HGET", key, field) or b"")
            server.ask("HSET", key, field, value)
            return f"{part}[{field!r}] = {value!r}"
        case "zset":
            members = server.ask("ZRANGE", key, 0, -1)
            mine = [member for member in members if is_victim(member, part)]
            like = chance.choice(mine) if mine else b""
            score = chance.choice((0, -9, 9, 1, "-inf", "inf", 1e300, -1e300, 1.5, 10**15, 10**17))
            member = like if like and chance.random() < 0.3 else garbage(chance, like)
            server.ask("ZADD", key, score, member)
            return f"{part} + {score} {member!r}"
        case _:
            server.ask("RPUSH", key, garbage(chance))
            return f"{part} + garbage"


def is_victim(name: bytes, part: str) -> bool:
    """Whether a field or member is one that may be damaged."""
    return part == "head" or not any(id.encode() in name for id in GOOD)


async def look(broker: Store) -> None:
    """Every verb of an operator. Whatever is there: an answer, or an error of bee's own."""
    ids = [f"{VICTIM}-{name}" for name in ("0", "held", "over", "parent", "child", "ready")]
    calls: list[Callable[[], Awaitable[object]]] = [
        broker.queues,
        lambda: broker.stats(QUEUE),
        lambda: broker.workers(QUEUE),
        lambda: broker.results(QUEUE, ids),
        lambda: broker.reports(QUEUE, f"{VICTIM}-parent"),
        lambda: broker.restore(QUEUE, ids[:1]),
        lambda: broker.cancel(QUEUE, ids[1:3], to=bee.Archive()),
        lambda: broker.prune(QUEUE, keep=1),
    ]
    calls += [partial(broker.get, QUEUE, id) for id in ids]
    calls += [partial(broker.scan, QUEUE, state) for state in bee.State]
    for call in calls:
        with suppress(bee.BeeError):
            await call()


async def good_ones_come(broker: Store) -> set[str]:
    """Lease and end what comes, a bounded number of times: which good ones came, and a new one."""
    await broker.send(QUEUE, [bee.Draft("new", b"")])
    came: set[str] = set()
    for _ in range(30):
        try:
            leases = await broker.lease(QUEUE, limit=5, duration=60, holder="w")
        except bee.BrokerError:
            continue
        if not leases and came >= {*GOOD, "new"}:
            break
        for one in leases:
            try:
                await broker.settle(QUEUE, [bee.Settlement(one.receipt, bee.Delete())])
            except bee.BrokerError:
                continue
            came.add(one.receipt.id)
    return came & {*GOOD, "new"}


VALUES = {
    "bigint": ("0", "-1", "1", "9223372036854775807", "-9223372036854775808"),
    "integer": ("0", "-1", "7", "2147483647", "-2147483648"),
    "smallint": ("0", "-9", "9"),
    "timestamp with time zone": ("'-infinity'", "'infinity'", "'0001-01-01'", "'epoch'", "now()"),
    "boolean": ("true", "false"),
    "text": ("''", "'x'", r"E'\u0001'", "repeat('x', 3000)"),
    "bytea": (r"'\x'", r"'\xff'", r"'\x7b'", "repeat('x', 3000)::bytea"),
    "ARRAY": ("'{}'", "array[row(0, null, null, null, null, null, null, null)::bee.episode]"),
    "numeric": ("0", "-1"),
}
"""What may be written into a column of each type."""
COLUMNS = """
    select table_name, column_name, data_type, is_nullable = 'YES' from information_schema.columns
    where table_schema = 'bee' and table_name not in ('version')
      and table_name in (select tablename from pg_tables where schemaname = 'bee')
      and column_name not in ('queue') order by 1, 2
"""


async def damage_pg(connection: Any, chance: random.Random) -> str:
    """Write into one column of the victims, and say what was done. The connection commits each."""
    found = await (await connection.execute(COLUMNS)).fetchall()
    table, column, kind, nullable = chance.choice(found)
    value = "null" if nullable and chance.random() < 0.2 else chance.choice(VALUES[kind])
    has_id = any(row[:2] == (table, "id") for row in found)
    where = f"where id like '{VICTIM}%'" if has_id else ""
    statement = f"update bee.{table} set {column} = {value} {where}"
    try:
        await connection.execute(statement)
    except Exception as error:  # the table itself refuses it
        return f"refused: {statement}: {error}"
    return statement


EMPTY = """
    truncate bee.message, bee.successor, bee.archive, bee.created, bee.wake, bee.delivery,
             bee.report, bee.result, bee.worker, bee.idle, bee.paused
"""
"""What makes the schema as it was: `drop` leaves what was written under another queue's name."""
