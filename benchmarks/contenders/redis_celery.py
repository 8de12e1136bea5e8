# /// script
# dependencies = ["celery==5.7.0", "redis==8.1.0", "hiredis==3.5.0"]
# ///
"""celery on Redis."""

from __future__ import annotations

import logging
import os
import time
from argparse import Namespace
from typing import Any

import handlers
from celery import Celery
from celery.signals import worker_ready
from meter import Meter, Stopwatch, options, payload

POOL = os.environ.get("POOL", "threads")
CONCURRENCY = 8
PREFETCH = int(os.environ.get("PREFETCH", "100"))


def make_app(url: str) -> Celery:
    app = Celery("benchmark", broker=url)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        broker_transport_options={"visibility_timeout": 30},
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=PREFETCH,
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
    meter = Meter(forks=POOL == "prefork")
    app.task(handlers.plain(meter, args.handler), name="job")

    def up(**_: Any) -> None:
        meter.up()

    worker_ready.connect(up, weak=False)
    app.Worker(
        pool=POOL,
        concurrency=args.concurrency or CONCURRENCY,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
        loglevel="ERROR",
    ).start()


def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    app = make_app(args.url)
    commands = {"send": send, "send-many": send_many, "work": work}
    commands[args.command](args, app)


if __name__ == "__main__":
    main()
