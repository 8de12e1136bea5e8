# /// script
# dependencies = ["pgmq[async]==1.1.4", "asyncpg==0.32.0", "orjson==3.13.0", "psycopg[binary]==3.3.8", "uvloop==0.23.0"]
# ///
"""pgmq's Python client, which is no worker library.

What works here is a loop of our own that reads a batch of messages, runs a task for each, and deletes them
all. It has no retries, no timeouts and no renewal of what it has read. Two such loops of 500 take turns;
one alone has three quarters of the speed, three of 300 are as fast within the noise. An idle one polls every 10 ms within the
server; the client's default is 100. Every call is given a connection: without it, it takes one from a pool,
whose reset is a round trip more. The functions of the extension are installed from the SQL that the client
ships for servers without it.

A message is hidden for 30 seconds, the client's default, when it is read, and deleted after its handler has
ended; one whose reader has died comes back after that. So: at least once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from argparse import Namespace

import asyncpg
import handlers
import psycopg
import uvloop
from meter import Meter, Stopwatch, options, payload
from pgmq import AsyncPGMQueue, install_pgmq_from_sql

FETCH = 500
LOOPS = 2
POLL = 10
BATCH = 1000
HIDDEN = 30


async def send(args: Namespace, queue: AsyncPGMQueue) -> None:
    async with queue.pool.acquire() as link:
        for number in range(20):
            await queue.send("bench", payload(number), conn=link)
        watch = Stopwatch()
        for number in range(args.jobs):
            if args.pause:
                await asyncio.sleep(args.pause)
            await queue.send("bench", payload(number), conn=link)
        watch.stop(args.jobs, "send")


async def send_many(args: Namespace, queue: AsyncPGMQueue) -> None:
    batch = args.batch or BATCH
    delay = math.ceil(args.delay) or None
    async with queue.pool.acquire() as link:
        watch = Stopwatch()
        for start in range(0, args.jobs, batch):
            jobs = [payload(number) for number in range(start, min(start + batch, args.jobs))]
            await queue.send_batch("bench", jobs, delay=delay, conn=link)
        watch.stop(args.jobs, f"send_batch of {batch}")


async def work(args: Namespace, queue: AsyncPGMQueue) -> None:
    meter = Meter()
    handle = handlers.coroutine(meter, args.handler)
    at_once = args.concurrency or LOOPS * FETCH
    loops = min(LOOPS, at_once)

    async def loop(link: asyncpg.pool.PoolConnectionProxy) -> None:
        while True:
            found = await queue.read_with_poll(
                "bench", vt=HIDDEN, qty=at_once // loops, poll_interval_ms=POLL, conn=link
            )
            if found:
                await asyncio.gather(*(handle(each.message) for each in found))
                await queue.delete_batch("bench", [each.msg_id for each in found], conn=link)

    meter.up()
    await asyncio.gather(*[loop(await queue.pool.acquire()) for _ in range(loops)])


def install(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("select pg_advisory_lock(1)")
        if connection.execute("select to_regnamespace('pgmq')").fetchone() == (None,):
            install_pgmq_from_sql(conn=connection)
            connection.execute("select pgmq.create('bench')")


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    install(args.url)
    async with asyncpg.create_pool(args.url, min_size=1, max_size=4) as pool:
        queue = AsyncPGMQueue(pool=pool, init_extension=False)
        await queue.init()
        commands = {"send": send, "send-many": send_many, "work": work}
        await commands[args.command](args, queue)


if __name__ == "__main__":
    uvloop.run(main())
