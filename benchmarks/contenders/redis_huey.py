# /// script
# dependencies = ["huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"]
# ///
"""huey on Redis.

A job is popped when it is taken and nothing remembers it: at most once, a worker that dies loses what
it runs. There is no setting for that. Results are off, reads block.

32 threads are its fastest (4,400 to 4,900 jobs/s; 1 to 16 are 2,900 to 4,000, greenlets 2,300 to
3,400). There is no bulk send.
"""

from __future__ import annotations

import logging
import time
from argparse import Namespace

import handlers
from huey import RedisHuey
from huey.api import TaskWrapper
from meter import Meter, Stopwatch, options, payload
from redis import ConnectionPool

THREADS = 32
CONNECTIONS = 5000
"""Each thread needs one; redis-py allows a hundred unless told otherwise."""


def register(huey: RedisHuey, args: Namespace, meter: Meter | None) -> TaskWrapper:
    """The task, for who sends it and for who runs it."""
    return huey.task(name="job")(handlers.plain(meter, args.handler))


def send(args: Namespace, huey: RedisHuey) -> None:
    job = register(huey, args, None)
    for number in range(20):
        job(payload(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            time.sleep(args.pause)
        job(payload(number))
    watch.stop(args.jobs, "call")


def send_many(args: Namespace, huey: RedisHuey) -> None:
    job = register(huey, args, None)
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.delay:
            job.schedule((payload(number),), delay=args.delay)
        else:
            job(payload(number))
    watch.stop(args.jobs, "call, one after the other: there is nothing faster")


def work(args: Namespace, huey: RedisHuey) -> None:
    meter = Meter()
    register(huey, args, meter)
    consumer = huey.create_consumer(
        workers=args.concurrency or THREADS, worker_type="thread", periodic=False
    )
    meter.up()
    consumer.run()


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    pool = ConnectionPool.from_url(args.url, max_connections=CONNECTIONS)
    huey = RedisHuey(connection_pool=pool, results=False)
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, huey)


if __name__ == "__main__":
    main()
