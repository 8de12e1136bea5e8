# /// script
# dependencies = ["chancy==0.26.0", "psycopg[binary]==3.3.8", "psycopg-pool==3.3.3", "uvloop==0.23.0"]
# ///
"""chancy.

The asyncio executor, uvloop, and `eager_polling`: a worker fetches whenever a job has ended, as many as it
has room for, so 1,000 at once is a batch of up to 1,000; in one run 100
were 15 % slower, 3,000 6 % faster. Of the default plugins it has those that elect a leader, prune, and recover; not metrics and workflows. With the default
timers a job of a worker that was killed runs again after two minutes; here they are shortened so that it
is half a minute.

The end of a job is kept in memory and written with others, every second by default: the handlers run far
ahead of it, and after a crash run again. So a job is counted here when its end has been committed, not when
its handler has returned. A job whose worker has had no heartbeat for 30 seconds is pending again. So: at
least once.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import handlers
import uvloop
from chancy import Chancy, Queue, Worker, job
from chancy.job import QueuedJob
from chancy.plugin import Plugin
from chancy.plugins.leadership import Leadership
from chancy.plugins.pruner import Pruner
from chancy.plugins.recovery import Recovery
from meter import Meter, Stopwatch, options, payload
from psycopg import AsyncConnection

CONCURRENCY = 1000
BATCH = 1000
handle: Callable[[dict[str, Any]], Awaitable[None]]


@job(queue="bench")
async def task(payload: dict[str, Any]) -> None:
    await handle(payload)


class Settled(Plugin):
    """Counts a job when its end has been committed."""

    def __init__(self, done: Callable[[], None]) -> None:
        super().__init__()
        self._done = done

    @staticmethod
    def get_identifier() -> str:
        return "bench.settled"

    async def on_job_updated(self, *, worker: Worker, job: QueuedJob) -> None:
        self._done()


async def send(args: Namespace, chancy: Chancy) -> None:
    for number in range(20):
        await chancy.push(task.job.with_kwargs(payload=payload(number)))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await chancy.push(task.job.with_kwargs(payload=payload(number)))
    watch.stop(args.jobs, "push")


async def send_many(args: Namespace, chancy: Chancy) -> None:
    batch = args.batch or BATCH
    due = datetime.now(UTC) + timedelta(seconds=args.delay) if args.delay else None
    one = task.job.with_scheduled_at(due) if due else task.job
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        jobs = [one.with_kwargs(payload=payload(number)) for number in numbers]
        async for _ in chancy.push_many(jobs, batch_size=batch):
            pass
    watch.stop(args.jobs, f"push_many of {batch}")


async def work(args: Namespace, chancy: Chancy) -> None:
    global handle
    meter = Meter()
    done, meter.done = meter.done, lambda: None  # the handler's own word comes too early
    handle = handlers.coroutine(meter, args.handler)
    chancy.plugins["bench.settled"] = Settled(done)
    queue = Queue(
        "bench",
        concurrency=args.concurrency or CONCURRENCY,
        executor=Chancy.Executor.Async,
        polling_interval=1,
        eager_polling=True,
    )
    await chancy.declare(queue, upsert=True)
    worker = Worker(
        chancy, heartbeat_poll_interval=5, heartbeat_timeout=30, register_signal_handlers=False
    )
    async with worker:
        meter.up()
        await worker.wait_for_shutdown()


async def install(chancy: Chancy, url: str) -> None:
    async with await AsyncConnection.connect(url) as connection:
        await connection.execute("select pg_advisory_xact_lock(1)")
        await chancy.migrate()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    plugins = [Leadership(poll_interval=5, timeout=10), Recovery(poll_interval=5), Pruner()]
    chancy = Chancy(args.url, plugins=plugins, no_default_plugins=True)
    commands = {"send": send, "send-many": send_many, "work": work}
    async with chancy:
        await install(chancy, args.url)
        await commands[args.command](args, chancy)


if __name__ == "__main__":
    uvloop.run(main())
