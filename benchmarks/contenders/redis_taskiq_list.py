# /// script
# dependencies = ["taskiq[orjson]==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0", "hiredis==3.5.0", "uvloop==0.23.0"]
# ///
"""taskiq with its list broker.

A job is popped when it is taken and nothing remembers it: at most once, a worker that dies loses what
it runs and what it has prefetched. There is no setting for that; the stream broker is.

100 jobs at a time and as many prefetched; 30 to 300 are alike (2,300 to 2,900 jobs/s). No result
backend, orjson, parameters not validated. There is no bulk send; gathering twenty is the fastest.
uvloop and hiredis are used.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace

import handlers
import uvloop
from meter import Meter, Stopwatch, options, payload, unsupported
from taskiq import TaskiqEvents, TaskiqState
from taskiq.api import run_receiver_task
from taskiq.kicker import AsyncKicker
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListQueueBroker

CONCURRENCY = 100
BATCH = 20


async def send(args: Namespace, broker: ListQueueBroker) -> None:
    job = AsyncKicker("job", broker, labels={})
    for number in range(20):
        await job.kiq(payload(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await job.kiq(payload(number))
    watch.stop(args.jobs, "kiq")


async def send_many(args: Namespace, broker: ListQueueBroker) -> None:
    if args.delay:
        unsupported("a delay needs taskiq's scheduler, a process of its own")
    batch = args.batch or BATCH
    job = AsyncKicker("job", broker, labels={})
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(*(job.kiq(payload(number)) for number in numbers))
    watch.stop(args.jobs, f"gather of {batch} kiq")


async def work(args: Namespace, broker: ListQueueBroker) -> None:
    meter = Meter()
    broker.register_task(handlers.coroutine(meter, args.handler), task_name="job")

    async def startup(state: TaskiqState) -> None:
        meter.up()

    broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, startup)
    await run_receiver_task(
        broker,
        run_startup=True,
        validate_params=False,
        max_async_tasks=args.concurrency or CONCURRENCY,
        max_prefetch=args.concurrency or CONCURRENCY,
    )


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    broker = ListQueueBroker(
        args.url,
        max_connection_pool_size=100,
    ).with_serializer(ORJSONSerializer())
    commands = {"send": send, "send-many": send_many, "work": work}
    if args.command != "work":
        await broker.startup()
    await commands[args.command](args, broker)
    await broker.shutdown()


if __name__ == "__main__":
    uvloop.run(main())
