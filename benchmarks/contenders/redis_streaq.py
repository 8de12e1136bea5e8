# /// script
# dependencies = ["streaq==7.2.0", "coredis==6.9.0", "uvloop==0.23.0"]
# ///
"""streaq.

A job is read through a consumer group and acknowledged when it has ended. A worker renews what it runs;
who dies leaves it idle, and after `idle_timeout` another worker reads it again. So: at least once.
`ttl=0` keeps no result, `silent` logs nothing per job.

100 jobs at a time and as many prefetched; 10 to 300 are alike (1,100 to 1,300 jobs/s). 500 in one
`enqueue_many` is faster than 100 and than 1,000. uvloop is used; coredis has a parser of its own.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload
from streaq import Worker

CONCURRENCY = 100
BATCH = 500


def register(worker: Worker, args: Namespace, meter: Meter | None):
    """The task, for who sends it and for who runs it."""
    return worker.task(name="job", ttl=0, silent=True)(handlers.coroutine(meter, args.handler))


async def send(args: Namespace) -> None:
    worker = Worker(args.url)
    job = register(worker, args, None)
    async with worker:
        for number in range(20):
            await job.enqueue(payload(number))
        watch = Stopwatch()
        for number in range(args.jobs):
            if args.pause:
                await asyncio.sleep(args.pause)
            await job.enqueue(payload(number))
        watch.stop(args.jobs, "enqueue")


async def send_many(args: Namespace) -> None:
    batch = args.batch or BATCH
    worker = Worker(args.url)
    job = register(worker, args, None)
    async with worker:
        watch = Stopwatch()
        for start in range(0, args.jobs, batch):
            numbers = range(start, min(start + batch, args.jobs))
            jobs = [job.enqueue(payload(number)) for number in numbers]
            if args.delay:
                jobs = [each.start(delay=args.delay) for each in jobs]
            await worker.enqueue_many(jobs)
        watch.stop(args.jobs, f"enqueue_many of {batch}")


async def work(args: Namespace) -> None:
    meter = Meter()

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        meter.up()
        yield

    worker = Worker(
        args.url,
        concurrency=args.concurrency or CONCURRENCY,
        lifespan=lifespan,
        idle_timeout=30,
    )
    register(worker, args, meter)
    await worker.run_async()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    commands = {"send": send, "send-many": send_many, "work": work}
    await commands[args.command](args)


if __name__ == "__main__":
    uvloop.run(main())
