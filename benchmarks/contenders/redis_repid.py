# /// script
# dependencies = ["repid==2.1.4", "typing-extensions==4.16.0", "redis==7.4.1", "hiredis==3.5.0", "uvloop==0.23.0"]
# ///
"""repid on Redis.

A job is read through a consumer group and acknowledged when it has ended. Who dies leaves it pending;
with a `claim_interval` (there is none by default, and then it stays there for good) another worker
claims it when it has been idle for `min_idle_ms`. So: at least once.

10 jobs at a time are its fastest (8,000 to 10,300 jobs/s; 100 and 1,000 are 5,400 to 8,800): it costs a
connection for each that ends at the same time. No time limit, which spares a timer per job; no
validation of parameters. There is no bulk send; gathering fifty is the fastest. uvloop and hiredis are used.
"""

from __future__ import annotations

import asyncio
import logging
import math
from argparse import Namespace

import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload, unsupported
from repid import RedisServer, Repid, Router
from repid.converter import BasicConverter

CONCURRENCY = 10
BATCH = 50
READ = 100
"""Jobs in one read; 10 to 500 are alike."""
HEADERS = {"topic": "job"}


async def send_one(app: Repid, number: int) -> None:
    await app.send_message_json(
        channel="default", payload={"payload": payload(number)}, headers=HEADERS
    )


async def send(args: Namespace, app: Repid) -> None:
    for number in range(20):
        await send_one(app, number)
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await send_one(app, number)
    watch.stop(args.jobs, "send_message_json")


async def send_many(args: Namespace, app: Repid) -> None:
    if args.delay:
        unsupported("repid has no delay on Redis")
    batch = args.batch or BATCH
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(*(send_one(app, number) for number in numbers))
    watch.stop(args.jobs, f"gather of {batch} send_message_json")


async def work(args: Namespace, app: Repid) -> None:
    meter = Meter()
    router = Router()
    router.actor(
        handlers.coroutine(meter, args.handler),
        name="job",
        timeout=math.inf,
        converter=BasicConverter,
    )
    app.include_router(router)
    meter.up()
    await app.run_worker(tasks_limit=args.concurrency or CONCURRENCY)


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    app = Repid()
    server = RedisServer(args.url, batch_size=READ, claim_interval=10.0, min_idle_ms=30_000)
    app.servers.register_server("default", server, is_default=True)
    commands = {"send": send, "send-many": send_many, "work": work}
    async with server.connection():
        await commands[args.command](args, app)


if __name__ == "__main__":
    uvloop.run(main())
