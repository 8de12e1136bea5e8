# /// script
# dependencies = ["saq==0.26.4", "typing-extensions==4.16.0", "redis==7.4.1", "hiredis==3.5.0", "uvloop==0.23.0"]
# ///
"""saq on Redis.

A job is moved to a list of active ones when it is taken, and struck off when it has ended. Who dies
leaves it there, until a sweep finds it older than its `timeout`; it runs again only if `retries` allow
a second attempt. So: at least once. `ttl=-1` keeps nothing of a job that has ended.

Reads block, one connection for each job at a time; 5 to 50 of them are alike (1,900 to 2,070 jobs/s),
twenty is a little ahead. There is no bulk send; a queue lets twenty sends run at a time by default,
and gathering more than that is not faster. uvloop and hiredis are used.
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
from saq import Worker
from saq.queue.redis import RedisQueue

CONCURRENCY = 20
BATCH = 20
JOB = {"timeout": 30, "retries": 3, "ttl": -1}


async def send(args: Namespace, queue: RedisQueue) -> None:
    for number in range(20):
        await queue.enqueue("job", payload=payload(number), **JOB)
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await queue.enqueue("job", payload=payload(number), **JOB)
    watch.stop(args.jobs, "enqueue")


async def send_many(args: Namespace, queue: RedisQueue) -> None:
    batch = args.batch or BATCH
    due = {"scheduled": int(time.time() + args.delay)} if args.delay else {}
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(
            *(queue.enqueue("job", payload=payload(number), **JOB, **due) for number in numbers)
        )
    watch.stop(args.jobs, f"gather of {batch} enqueue")


async def work(args: Namespace, queue: RedisQueue) -> None:
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
    )
    await worker.start()


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    queue = RedisQueue.from_url(args.url)
    await queue.connect()
    commands = {"send": send, "send-many": send_many, "work": work}
    await commands[args.command](args, queue)
    await queue.disconnect()


if __name__ == "__main__":
    uvloop.run(main())
