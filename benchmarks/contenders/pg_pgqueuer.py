# /// script
# dependencies = ["pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"]
# ///
"""pgqueuer, with asyncpg: with psycopg it had 0.6 and 0.8 of the speed in two runs.

One connection for the worker and its own autovacuum settings, as its guide to tuning has it, and uvloop, as
its command line has. 200 jobs are fetched at a time, and their ends written as many at a time: 10, the
default, has a third of the speed, 500 has the same. Without `--concurrency` there is no limit to what runs
at once, which is the default; with it, it is at least 2, since the limit has to be twice the batch. All
tables are logged, the default: with an unlogged log it was not measurably faster.

A job is deleted after its handler has ended; a job whose worker has not renewed it for 30 seconds, the
default, is taken again. So: at least once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from argparse import Namespace
from datetime import timedelta

import asyncpg
import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

FETCH = 200
BATCH = 1000


async def send(args: Namespace, driver: AsyncpgDriver) -> None:
    queries = Queries(driver)
    for number in range(20):
        await queries.enqueue("job", json.dumps(payload(number)).encode())
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await queries.enqueue("job", json.dumps(payload(number)).encode())
    watch.stop(args.jobs, "enqueue")


async def send_many(args: Namespace, driver: AsyncpgDriver) -> None:
    queries = Queries(driver)
    batch = args.batch or BATCH
    after = timedelta(seconds=args.delay) if args.delay else None
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        bodies = [json.dumps(payload(number)).encode() for number in numbers]
        many = len(bodies)
        await queries.enqueue(["job"] * many, bodies, [0] * many, [after] * many)
    watch.stop(args.jobs, f"enqueue of {batch}")


async def work(args: Namespace, driver: AsyncpgDriver) -> None:
    meter = Meter()
    handle = handlers.coroutine(meter, args.handler)
    worker = PgQueuer(driver)

    @worker.entrypoint("job")
    async def job(job: Job) -> None:
        await handle(json.loads(job.payload or b""))

    at_once = max(2, args.concurrency) if args.concurrency else None
    meter.up()
    await worker.run(
        batch_size=min(FETCH, at_once // 2) if at_once else FETCH,
        max_concurrent_tasks=at_once,
    )


async def install(driver: AsyncpgDriver) -> None:
    queries = Queries(driver)
    async with queries.schema_lock():
        if not await queries.schema_is_installed():
            await queries.install()
            await queries.optimize_autovacuum()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    connection = await asyncpg.connect(args.url)
    driver = AsyncpgDriver(connection)
    await install(driver)
    commands = {"send": send, "send-many": send_many, "work": work}
    await commands[args.command](args, driver)
    await connection.close()


if __name__ == "__main__":
    uvloop.run(main())
