"""bee's contender on any store: a hive as a program that follows the production pages has it.

Defaults throughout, the log on INFO as `bee worker` sets it up, uvloop as with `--loop uvloop`, and 100
jobs at once: a worker leases and settles in batches of up to its concurrency. From 100 to 1,000 at once the
processor time of worker and server for a job is the same.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

import uvloop
from meter import Meter, Stopwatch, options, payload

import bee_core as bee
from bee_core.logs import configure_logging

CONCURRENCY = 100
WARM_UP = 20


class Noop(bee.Job):
    """The fields of `payload`."""

    number: int
    sent: float
    text: str


def job(number: int) -> Noop:
    """The job of this number, sent now."""
    return Noop(**payload(number))


async def send(queue: bee.Queue[Noop], given: argparse.Namespace) -> None:
    """One after the other."""
    for number in range(WARM_UP):
        await queue.send(job(number))
    watch = Stopwatch()
    for number in range(given.jobs):
        if given.pause:
            await asyncio.sleep(given.pause)
        await queue.send(job(number))
    watch.stop(given.jobs, "Queue.send")


async def send_many(queue: bee.Queue[Noop], given: argparse.Namespace) -> None:
    """All with one call, which cuts them into batches itself; or in calls of `--batch`."""
    each = given.batch or given.jobs
    watch = Stopwatch()
    for start in range(0, given.jobs, each):
        numbers = range(start, min(start + each, given.jobs))
        if given.delay:
            await queue.send_many(queue.draft(job(n), delay=given.delay) for n in numbers)
        else:
            await queue.send_many(job(n) for n in numbers)
    watch.stop(given.jobs, "Queue.send_many")


def handler(kind: str, meter: Meter) -> Callable[[Noop], Awaitable[None]]:
    """What `--handler` asks for."""

    async def noop(job: Noop) -> None:
        meter.done()

    async def sleep(job: Noop) -> None:
        await asyncio.sleep(0.005)
        meter.done()

    async def late(job: Noop) -> None:
        meter.late(job.sent)
        meter.done()

    async def hang(job: Noop) -> None:
        meter.began()
        await asyncio.sleep(3600)

    return {"noop": noop, "sleep": sleep, "late": late, "hang": hang}[kind]


async def perform(hive: bee.Hive, given: argparse.Namespace) -> None:
    """The command."""
    queue = hive.queue(given.queue, Noop, policy=bee.Policy(timeout=7200))
    async with hive:
        await hive.broker.stats(given.queue)  # connected, and on PostgreSQL migrated
        match given.command:
            case "send":
                await send(queue, given)
            case "send-many":
                await send_many(queue, given)
            case "work":
                meter = Meter()
                queue.handler(handler(given.handler, meter))
                if given.url.startswith("memory:"):  # nobody else can send to it
                    await queue.send_many(job(number) for number in range(given.jobs))
                async with hive.working():
                    meter.up()
                    await asyncio.Event().wait()


def main(more: str = "") -> None:
    """Be the contender; `more` is added to the URL."""
    given = options()
    configure_logging("text", "INFO")
    hive = bee.Hive(given.url + more, concurrency=given.concurrency or CONCURRENCY)
    uvloop.run(perform(hive, given))
