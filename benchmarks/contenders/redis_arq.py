# /// script
# dependencies = ["arq==0.28.0", "redis==5.3.1", "hiredis==3.5.0", "uvloop==0.23.0"]
# ///
"""arq.

A job stays in the queue until it has ended; a key that expires says that somebody runs it. Who dies
leaves that key, and when it has expired, `job_timeout` and ten seconds later, the job is taken again.
So: at least once. `keep_result=0` keeps no result.

Its worker polls: every millisecond (`poll_delay`; half a second by default), which gives it a short
pick-up. 10 to 300 jobs at a time are alike (2,200 to 2,500 jobs/s), 300 is a little ahead. There is no
bulk send; gathering fifty is as good as any. uvloop and hiredis are used.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from typing import Any

import handlers
import uvloop
from arq import ArqRedis, Worker, create_pool, func
from arq.connections import RedisSettings
from meter import Meter, Stopwatch, options, payload

CONCURRENCY = 300
BATCH = 50
POLL = 0.001


async def send(args: Namespace, redis: ArqRedis) -> None:
    for number in range(20):
        await redis.enqueue_job("job", payload(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await redis.enqueue_job("job", payload(number))
    watch.stop(args.jobs, "enqueue_job")


async def send_many(args: Namespace, redis: ArqRedis) -> None:
    batch = args.batch or BATCH
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(
            *(
                redis.enqueue_job("job", payload(number), _defer_by=args.delay or None)
                for number in numbers
            )
        )
    watch.stop(args.jobs, f"gather of {batch} enqueue_job")


async def work(args: Namespace, redis: ArqRedis) -> None:
    meter = Meter()
    handle = handlers.coroutine(meter, args.handler)

    async def job(context: dict[str, Any], payload: dict[str, Any]) -> None:
        await handle(payload)

    async def startup(context: dict[str, Any]) -> None:
        meter.up()

    worker = Worker(
        [func(job, name="job")],
        redis_pool=redis,
        on_startup=startup,
        max_jobs=args.concurrency or CONCURRENCY,
        job_timeout=20,
        keep_result=0,
        poll_delay=POLL,
        log_results=False,
    )
    await worker.async_run()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    redis = await create_pool(RedisSettings.from_dsn(args.url))
    commands = {"send": send, "send-many": send_many, "work": work}
    await commands[args.command](args, redis)
    await redis.aclose()


if __name__ == "__main__":
    uvloop.run(main())
