# /// script
# dependencies = ["celery==5.7.0", "redis==8.1.0", "hiredis==3.5.0", "packaging==25.0"]
# ///
"""celery on Redis.

`task_acks_late` leaves a job unacknowledged until it has ended. Who dies leaves it so, and when it has
been for `visibility_timeout`, another worker gives it back; it looks every hundred seconds or so. So:
at least once. Results, events, rate limits, gossip, mingle and heartbeats are off.

The pool is `solo`, which is its fastest for handlers that do not wait: 1,200 to 1,400 jobs/s, against
900 to 1,200 with `threads` and 400 to 650 with `prefork`. Where more than one job at a time is asked
for, it is `threads`. About a thousand are prefetched; a tenth of that is a tenth slower.
"""

from __future__ import annotations

import logging
import time
from argparse import Namespace
from typing import Any

import handlers
from celery import Celery
from celery.signals import worker_ready
from meter import Meter, Stopwatch, options, payload

PREFETCH = 1000


def make_app(args: Namespace) -> Celery:
    app = Celery("benchmark", broker=args.url)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        broker_transport_options={"visibility_timeout": 30},
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=max(PREFETCH // (args.concurrency or 1), 1),
        worker_disable_rate_limits=True,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
    )
    return app


def send(args: Namespace, app: Celery) -> None:
    job = app.signature("job")
    for number in range(20):
        job.apply_async((payload(number),))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            time.sleep(args.pause)
        job.apply_async((payload(number),))
    watch.stop(args.jobs, "apply_async")


def send_many(args: Namespace, app: Celery) -> None:
    job = app.signature("job")
    countdown = args.delay or None
    watch = Stopwatch()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(args.jobs):
            job.apply_async((payload(number),), producer=producer, countdown=countdown)
    watch.stop(args.jobs, "apply_async with one producer")


def work(args: Namespace, app: Celery) -> None:
    meter = Meter()
    app.task(handlers.plain(meter, args.handler), name="job")

    def up(**_: Any) -> None:
        meter.up()

    worker_ready.connect(up, weak=False)
    app.Worker(
        pool="threads" if args.concurrency > 1 else "solo",
        concurrency=args.concurrency or 1,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        loglevel="ERROR",
    ).start()


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    app = make_app(args)
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, app)


if __name__ == "__main__":
    main()
