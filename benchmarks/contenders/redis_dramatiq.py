# /// script
# dependencies = ["dramatiq==2.2.1", "redis==8.1.0", "hiredis==3.5.0"]
# ///
"""dramatiq on Redis.

A fetched job is in its worker's set of unacknowledged ones until it has ended. Who dies leaves it
there; when its heartbeat is older than `heartbeat_timeout`, any call of another worker may move it
back, with a chance of `maintenance_chance` in a million. So: at least once. The default chance is a
tenth of this one, which an idle worker takes very long to hit.

Its worker polls: every millisecond (`worker_timeout`; a second by default), which is what gives it a
short pick-up. All of its threads wake up as often, so more of them are given more time. The default
prefetch, twice the threads, makes a drain wait for the next poll; a large one does not. With that, 2
to 16 threads are alike (4,000 to 5,200 jobs/s); eight is the default. There is no bulk send.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from argparse import Namespace

import handlers
from meter import Meter, Stopwatch, options, payload
from redis import ConnectionPool, Redis

os.environ["dramatiq_queue_prefetch"] = "2000"  # noqa: SIM112 - its name; dramatiq reads it when it is imported

import dramatiq
from dramatiq.brokers.redis import RedisBroker

THREADS = 8
CONNECTIONS = 5000
"""Each thread needs one; redis-py allows a hundred unless told otherwise."""


def message(number: int) -> dramatiq.Message:
    return dramatiq.Message(
        queue_name="default", actor_name="job", args=(payload(number),), kwargs={}, options={}
    )


def send(args: Namespace, broker: RedisBroker) -> None:
    for number in range(20):
        broker.enqueue(message(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            time.sleep(args.pause)
        broker.enqueue(message(number))
    watch.stop(args.jobs, "enqueue")


def send_many(args: Namespace, broker: RedisBroker) -> None:
    delay = int(args.delay * 1000) or None
    watch = Stopwatch()
    for number in range(args.jobs):
        broker.enqueue(message(number), delay=delay)
    watch.stop(args.jobs, "enqueue, one after the other: there is nothing faster")


def work(args: Namespace, broker: RedisBroker) -> None:
    meter = Meter()
    dramatiq.actor(handlers.plain(meter, args.handler), actor_name="job", broker=broker)
    threads = args.concurrency or THREADS
    worker = dramatiq.Worker(broker, worker_timeout=threads / THREADS, worker_threads=threads)
    worker.start()
    meter.up()
    threading.Event().wait()


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    pool = ConnectionPool.from_url(args.url, max_connections=CONNECTIONS)
    broker = RedisBroker(
        client=Redis(connection_pool=pool), heartbeat_timeout=30_000, maintenance_chance=10_000
    )
    broker.declare_queue("default")
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, broker)


if __name__ == "__main__":
    main()
