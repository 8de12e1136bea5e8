# /// script
# dependencies = ["saq[postgres]==0.26.4", "psycopg[binary]==3.3.8", "psycopg-pool==3.3.3", "uvloop==0.23.0"]
# ///
"""saq on PostgreSQL.

A pool of our own, with as many connections as its own has, but without a check of a connection whenever it is
taken: a round trip less for each statement. 100 jobs at once: no different from 20 or 50 within the noise.
Workers are woken by LISTEN, the default. `ttl=-1` keeps nothing of a job that has ended. There is no bulk
enqueue, so many are sent over all connections at once.

A job is active while it runs, and deleted when it has ended. Who dies leaves it active, until a sweep finds
it older than its `timeout`; it runs again only if `retries` allow a second attempt. So: at least once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from argparse import Namespace
from typing import Any

import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from saq import Worker
from saq.queue.postgres import PostgresQueue

CONCURRENCY = 100
CONNECTIONS = 20
BATCH = 20
JOB = {"timeout": 30, "retries": 3, "ttl": -1}


async def send(args: Namespace, queue: PostgresQueue) -> None:
    for number in range(20):
        await queue.enqueue("job", payload=payload(number), **JOB)
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await queue.enqueue("job", payload=payload(number), **JOB)
    watch.stop(args.jobs, "enqueue")


async def send_many(args: Namespace, queue: PostgresQueue) -> None:
    batch = args.batch or BATCH
    due = {"scheduled": int(time.time() + args.delay)} if args.delay else {}
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(
            *(queue.enqueue("job", payload=payload(number), **JOB, **due) for number in numbers)
        )
    watch.stop(args.jobs, f"gather of {batch} enqueue")


async def work(args: Namespace, queue: PostgresQueue) -> None:
    meter = Meter()
    handle = handlers.coroutine(meter, args.handler)

    async def job(context: dict[str, Any], *, payload: dict[str, Any]) -> None:
        await handle(payload)

    async def startup(context: dict[str, Any]) -> None:
        meter.up()

    worker = Worker(
        queue,
        functions=[("job", job)],
        concurrency=args.concurrency or CONCURRENCY,
        startup=startup,
        timers={"sweep": 10},
    )
    await worker.start()


async def install(queue: PostgresQueue, url: str) -> None:
    async with await AsyncConnection.connect(url) as connection:
        await connection.execute("select pg_advisory_xact_lock(1)")
        await queue.connect()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    pool = AsyncConnectionPool(args.url, open=False)
    queue = PostgresQueue(pool, max_size=CONNECTIONS, manage_pool_lifecycle=True)
    await install(queue, args.url)
    commands = {"send": send, "send-many": send_many, "work": work}
    await commands[args.command](args, queue)
    await queue.disconnect()


if __name__ == "__main__":
    uvloop.run(main())
