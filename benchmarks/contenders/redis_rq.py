# /// script
# dependencies = ["rq==2.12.0", "redis==8.1.0", "hiredis==3.5.0"]
# ///
"""rq with its SimpleWorker.

SimpleWorker runs one job after the other in its own process, which spares the fork per job of the
default worker. A running job is in a registry of started ones. Who dies leaves it there for its
timeout and a minute more; then the maintenance of another worker finds it, and if `retry` leaves it
an attempt, it runs again. So: at least once. An idle worker does its maintenance only when its
blocking read ends, which is fifteen seconds before `worker_ttl`. `result_ttl=0` keeps nothing.
"""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from typing import Any

import handlers
from meter import Meter, Stopwatch, options, payload, unsupported
from redis import Redis
from rq import Queue, Retry, SimpleWorker

BATCH = 100
FUNCTION = "handlers.job"
"""rq finds a task by the name of its module and its own, so the worker puts it there."""


def keywords() -> dict[str, Any]:
    return {"result_ttl": 0, "retry": Retry(max=3)}


def send(args: Namespace, queue: Queue) -> None:
    for number in range(20):
        queue.enqueue(FUNCTION, payload(number), job_timeout=30, **keywords())
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            time.sleep(args.pause)
        queue.enqueue(FUNCTION, payload(number), job_timeout=30, **keywords())
    watch.stop(args.jobs, "enqueue")


def send_many(args: Namespace, queue: Queue) -> None:
    if args.delay:
        unsupported("a delay needs rq's scheduler, a process of its own")
    batch = args.batch or BATCH
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        queue.enqueue_many(
            [
                Queue.prepare_data(FUNCTION, (payload(number),), timeout=30, **keywords())
                for number in numbers
            ]
        )
    watch.stop(args.jobs, f"enqueue_many of {batch}")


def work(args: Namespace, queue: Queue) -> None:
    if args.concurrency > 1:
        unsupported("a worker of rq runs one job at a time")
    meter = Meter()
    handlers.job = handlers.plain(meter, args.handler)
    worker = SimpleWorker(
        [queue],
        connection=queue.connection,
        worker_ttl=30,
        maintenance_interval=10,
        log_job_description=False,
    )
    meter.up()
    worker.work(logging_level="ERROR")


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    queue = Queue(connection=Redis.from_url(args.url))
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, queue)


if __name__ == "__main__":
    main()
