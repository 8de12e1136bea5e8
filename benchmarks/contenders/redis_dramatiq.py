# /// script
# dependencies = ["dramatiq==2.2.1", "redis==8.1.0", "hiredis==3.5.0"]
# ///
"""dramatiq on Redis.

A fetched job is in its worker's set of unacknowledged ones until it has ended. Who dies leaves it
there; when its heartbeat is older than `heartbeat_timeout`, any call of another worker may move it
back, with a chance of `maintenance_chance` in a million. So: at least once.
"""

from __future__ import annotations

import logging
import threading
import time
from argparse import Namespace

import dramatiq
import handlers
from dramatiq.brokers.redis import RedisBroker
from meter import Meter, Stopwatch, options, payload

THREADS = 8
POLL = 5


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
    worker = dramatiq.Worker(
        broker, worker_timeout=POLL, worker_threads=args.concurrency or THREADS
    )
    worker.start()
    meter.up()
    threading.Event().wait()


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    broker = RedisBroker(url=args.url, heartbeat_timeout=30_000, maintenance_chance=10_000)
    broker.declare_queue("default")
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, broker)


if __name__ == "__main__":
    main()
