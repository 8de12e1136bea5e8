# /// script
# dependencies = ["msgspec==0.20.0", "psycopg[binary]==3.3.8", "uvloop==0.22.1"]
# ///
"""The limit on PostgreSQL: a loop written by hand, with bee's guarantees and nothing else.

An id is sent once, a lease ends and is taken over, a token that grows is compared at the end, deliveries are
counted, and of what is due the highest priority is run first, then what was due first. Any number of queues in one
table, with one index beside the primary key: queue, priority, due time, which for a leased job is the end of its
lease. One prepared statement settles a batch and leases the next, looking at one priority after the other until it
has enough. Two such loops take turns, so that jobs run while the server works. Looks at the priority that was found
last begin where its last job was found, not at the dead rows before it, and now and then at the beginning. Each job
is a task; a batch has one deadline, and leases are prolonged by one timer for all.

It has less to do than any library: nothing is counted but deliveries, a failed job is repeated when its lease ends,
nothing is archived, and a batch is settled when the last of its jobs has ended, so that a slow one holds up the
other 99.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import handlers
import msgspec
import psycopg
import uvloop
from meter import Meter, Stopwatch, options, payload

BATCH = 100
LOOPS = 2
LEASE = 30
DEADLINE = 7200
WHOLE = 100
"""Every so many turns the look is at the whole line."""
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
QUEUE = "bench"
RANKS = list(range(-9, 10))

TABLES = """
select pg_advisory_xact_lock(7);
create table if not exists raw_job (
  queue text collate "C", id text collate "C", rank smallint not null, due timestamptz not null, token bigint,
  deliveries int not null default 0, body bytea not null, primary key (queue, id)
);
create index if not exists raw_due on raw_job (queue, rank, due);
create sequence if not exists raw_token;
create unlogged table if not exists raw_idle (worker text primary key);
"""

# Only who waits is notified: a notification makes commits queue up for one lock.
SEND = """
with sent as (
  insert into raw_job (queue, id, rank, due, body)
  select %b, id, rank, clock_timestamp() + %b * interval '1 second', body
  from unnest(%b::text[], %b::smallint[], %b::bytea[]) as t (id, rank, body)
  on conflict (queue, id) do nothing
)
select pg_notify('raw', '') from raw_idle limit 1
"""

# A rank is a priority whose sign is turned; each is looked at from where `lows` says.
TURN = """
with settled as (
  delete from raw_job j using unnest(%(ids)b::text[], %(tokens)b::bigint[]) as s (id, token)
  where j.queue = %(queue)b and j.id = s.id and j.token = s.token
), found as materialized (
  select j.place, j.rank, j.due from unnest(%(ranks)b::smallint[], %(lows)b::timestamptz[]) as l (rank, low), lateral (
    select j.ctid as place, j.rank, j.due from raw_job j
    where j.queue = %(queue)b and j.rank = l.rank and j.due <= now() and j.due >= l.low
    order by j.due for update skip locked limit %(limit)b
  ) j limit %(limit)b
), one as materialized (select nextval('raw_token') as token),
  last as materialized (select rank, min(due) as low from found group by rank order by rank desc limit 1)
update raw_job j set due = clock_timestamp() + interval '30 seconds', token = one.token, deliveries = deliveries + 1
from one where j.ctid = any (array(select place from found))
returning j.id, j.token, j.body, j.deliveries, (select rank from last), (select low from last)
"""

RENEW = """
update raw_job j set due = clock_timestamp() + interval '30 seconds'
from unnest(%b::text[], %b::bigint[]) as s (id, token) where j.queue = %b and j.id = s.id and j.token = s.token
"""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict[str, Any]).decode
Connection = psycopg.AsyncConnection[Any]
Handler = Callable[[dict[str, Any]], Awaitable[None]]


async def connect(url: str) -> Connection:
    return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)


async def make_tables(url: str) -> None:
    async with await connect(url) as connection:
        await connection.execute(TABLES, prepare=False)


async def send(given: argparse.Namespace, batch: int, pause: float, warm_up: int) -> None:
    await make_tables(given.url)
    connection = await connect(given.url)
    cursor = connection.cursor(binary=True)
    prefix = os.urandom(8).hex()

    async def send_some(start: int, size: int) -> None:
        numbers = range(start, start + size)
        ids = [f"{prefix}{number:x}" for number in numbers]
        bodies = [encode(payload(n)) for n in numbers]
        await cursor.execute(SEND, (QUEUE, given.delay, ids, [0] * size, bodies))

    for number in range(warm_up):
        await send_some(-1 - number, 1)
    watch = Stopwatch()
    for start in range(0, given.jobs, batch):
        if pause:
            await asyncio.sleep(pause)
        await send_some(start, min(batch, given.jobs - start))
    watch.stop(given.jobs, f"unnest of {batch}")


async def work(given: argparse.Namespace, handle: Handler) -> None:
    await make_tables(given.url)
    at_once = given.concurrency or LOOPS * BATCH
    limit = min(BATCH, at_once)
    held: dict[int, tuple[list[str], list[int]]] = {}
    loops = [one_loop(given.url, limit, handle, held, n) for n in range(at_once // limit)]
    await asyncio.gather(renew(given.url, held), *loops)


async def renew(url: str, held: dict[int, tuple[list[str], list[int]]]) -> None:
    connection = await connect(url)
    while True:
        await asyncio.sleep(LEASE / 3)
        for leases in list(held.values()):
            await connection.execute(RENEW, (*leases, QUEUE), binary=True)


async def rest(connection: Connection, name: str, is_idle: bool) -> bool:
    """The first time, only say that we are idle: who sent before that did not notify us."""
    if not is_idle:
        await connection.execute("listen raw")
        await connection.execute("insert into raw_idle values (%s) on conflict do nothing", (name,))
    else:
        async for _ in connection.notifies(timeout=1, stop_after=1):
            pass
    return True


async def one_loop(
    url: str, limit: int, handle: Handler, held: dict[int, Any], number: int
) -> None:
    connection, loop = await connect(url), asyncio.get_running_loop()
    # Making a plan takes a third of the time of a turn, and there is only one that will do.
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute("set enable_seqscan = off")
    cursor = connection.cursor(binary=True)
    name, is_idle, turns, lows = os.urandom(8).hex(), False, 0, [BEGINNING] * len(RANKS)
    fixed = {"queue": QUEUE, "ranks": RANKS, "limit": limit}

    async def run(at: int, body: bytes) -> None:
        try:
            await handle(decode(body))
        except Exception:  # its lease ends by itself, and it runs again
            traceback.print_exc()
            failed.append(at)

    done: tuple[list[str], list[int]] = ([], [])
    while True:
        turns += 1
        if turns % WHOLE == 0:
            lows = [BEGINNING] * len(RANKS)
        await cursor.execute(TURN, fixed | {"ids": done[0], "tokens": done[1], "lows": lows})
        rows = await cursor.fetchall()
        if not rows:
            done, lows, turns = ([], []), [BEGINNING] * len(RANKS), 0
            is_idle = await rest(connection, name, is_idle)
            continue
        if is_idle and len(rows) == limit:
            await connection.execute("delete from raw_idle where worker = %s", (name,))
            is_idle = False
        ids, tokens, bodies, _, (rank, *_), (low, *_) = zip(*rows, strict=True)
        lows[RANKS.index(rank)] = low
        failed: list[int] = []
        held[number] = done = (list(ids), list(tokens))
        async with asyncio.timeout(DEADLINE):
            for task in [loop.create_task(run(at, body)) for at, body in enumerate(bodies)]:
                await task
        del held[number]
        if failed:
            kept = [at for at in range(len(ids)) if at not in failed]
            done = ([ids[at] for at in kept], [tokens[at] for at in kept])


def main() -> None:
    given = options()
    match given.command:
        case "send":
            uvloop.run(send(given, 1, given.pause, 20))
        case "send-many":
            uvloop.run(send(given, given.batch or 1000, 0, 0))
        case "work":
            meter = Meter()
            meter.up()
            uvloop.run(work(given, handlers.coroutine(meter, given.handler)))


if __name__ == "__main__":
    main()
