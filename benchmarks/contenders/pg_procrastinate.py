# /// script
# dependencies = ["procrastinate==3.10.0", "psycopg[binary]==3.3.8", "psycopg-pool==3.3.3", "uvloop==0.23.0"]
# ///
"""procrastinate.

Its application may be given a pool: this one does not check a connection whenever it is taken, and commits
each statement by itself. Together that was twice the speed of the pool it makes itself. 10 jobs at once, on
as many connections: 30 and 100 were faster in one run and slower in another. Workers are woken by LISTEN, the default; jobs that
succeeded are deleted.

A job is marked when it is taken and deleted when it has ended. Who dies leaves it marked for ever; for this
the documentation has the user write a periodic task, which retries the jobs of workers without a heartbeat
for 30 seconds. It is here, every ten seconds. So: at least once, if one does that.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace

import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload
from procrastinate import App, PsycopgConnector
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

CONCURRENCY = 10
CONNECTIONS = 10
BATCH = 1000


async def send(args: Namespace, app: App) -> None:
    job = app.configure_task("job")
    for number in range(20):
        await job.defer_async(payload=payload(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await job.defer_async(payload=payload(number))
    watch.stop(args.jobs, "defer_async")


async def send_many(args: Namespace, app: App) -> None:
    batch = args.batch or BATCH
    due = {"schedule_in": {"seconds": args.delay}} if args.delay else {}
    job = app.configure_task("job", **due)
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await job.batch_defer_async(*({"payload": payload(number)} for number in numbers))
    watch.stop(args.jobs, f"batch_defer_async of {batch}")


async def work(args: Namespace, app: App) -> None:
    meter = Meter()
    app.task(handlers.coroutine(meter, args.handler), name="job")

    @app.periodic(cron="* * * * * */10")
    @app.task(name="retry_stalled", queueing_lock="retry_stalled")
    async def retry_stalled(timestamp: int) -> None:
        for stalled in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(stalled)

    meter.up()
    await app.run_worker_async(
        concurrency=args.concurrency or CONCURRENCY,
        delete_jobs="successful",
        install_signal_handlers=False,
    )


async def commit_each(connection: AsyncConnection) -> None:
    await connection.set_autocommit(True)


async def install(app: App, url: str) -> None:
    async with await AsyncConnection.connect(url) as connection:
        await connection.execute("select pg_advisory_xact_lock(1)")
        found = await connection.execute("select to_regclass('procrastinate_jobs')")
        if await found.fetchone() == (None,):
            await app.schema_manager.apply_schema_async()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    app = App(connector=PsycopgConnector())
    pool = AsyncConnectionPool(
        args.url, min_size=1, max_size=CONNECTIONS, configure=commit_each, open=False
    )
    commands = {"send": send, "send-many": send_many, "work": work}
    async with pool, app.open_async(pool):
        await install(app, args.url)
        await commands[args.command](args, app)


if __name__ == "__main__":
    uvloop.run(main())
