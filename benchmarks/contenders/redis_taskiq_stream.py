# /// script
# dependencies = ["taskiq[orjson]==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0", "hiredis==3.5.0", "uvloop==0.23.0"]
# ///
"""taskiq with its stream broker.

A job is read through a consumer group and acknowledged when its handler has ended. Who dies leaves it
pending, and when it has been idle for `idle_timeout` another worker claims it. So: at least once. But a
worker looks for pending jobs only after it has read a new one: where none is sent, none is run again.

100 jobs at a time and as many prefetched; 10 to 1,000 are alike (2,100 to 2,750 jobs/s). No result
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
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq.kicker import AsyncKicker
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import RedisStreamBroker

CONCURRENCY = 100
BATCH = 20


async def send(args: Namespace, broker: RedisStreamBroker) -> None:
    job = AsyncKicker("job", broker, labels={})
    for number in range(20):
        await job.kiq(payload(number))
    watch = Stopwatch()
    for number in range(args.jobs):
        if args.pause:
            await asyncio.sleep(args.pause)
        await job.kiq(payload(number))
    watch.stop(args.jobs, "kiq")


async def send_many(args: Namespace, broker: RedisStreamBroker) -> None:
    if args.delay:
        unsupported("a delay needs taskiq's scheduler, a process of its own")
    batch = args.batch or BATCH
    job = AsyncKicker("job", broker, labels={})
    watch = Stopwatch()
    for start in range(0, args.jobs, batch):
        numbers = range(start, min(start + batch, args.jobs))
        await asyncio.gather(*(job.kiq(payload(number)) for number in numbers))
    watch.stop(args.jobs, f"gather of {batch} kiq")


async def work(args: Namespace, broker: RedisStreamBroker) -> None:
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
        ack_time=AcknowledgeType.WHEN_EXECUTED,
    )


async def main() -> None:
    logging.disable(logging.WARNING)
    args = options()
    broker = RedisStreamBroker(
        args.url,
        consumer_id="0",
        idle_timeout=30_000,
        unacknowledged_lock_timeout=30,
        max_connection_pool_size=100,
    ).with_serializer(ORJSONSerializer())
    commands = {"send": send, "send-many": send_many, "work": work}
    if args.command != "work":
        await broker.startup()
    await commands[args.command](args, broker)
    await broker.shutdown()


if __name__ == "__main__":
    uvloop.run(main())
