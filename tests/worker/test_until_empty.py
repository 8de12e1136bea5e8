"""A hive that runs until all its queues are empty."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.testing import FaultyBroker
from bee_memory import MemoryBroker

from .support import Work, nothing


class Other(bee.Job):
    """A job of another queue."""

    number: int = 0


async def test_until_empty_goes_on_while_one_queue_fills_the_other() -> None:
    hive = bee.Hive("memory://")
    first, second = hive.queue("first", Work), hive.queue("second", Other)
    seen: Counter[str] = Counter()

    @first.handler
    async def one(job: Work) -> None:
        seen["first"] += 1
        if job.number:
            await second.send(Other(job.number))

    @second.handler
    async def two(job: Other) -> None:
        seen["second"] += 1
        await first.send(Work(number=job.number - 1))

    async with hive:
        await first.send(Work(number=10))
        await hive.run(until_empty=True)

    assert Counter({"first": 11, "second": 10}) == seen


async def test_until_empty_can_be_stopped_between_its_rounds() -> None:
    """The stop comes while the hive itself looks whether something is left."""
    broker = FaultyBroker(MemoryBroker())
    hive = bee.Hive(broker=broker, observers=())
    jobs = hive.queue("jobs", Work)
    jobs.handler(nothing)
    of_the_worker, of_the_hive = broker.gate("stats"), broker.gate("stats")
    async with hive:
        run = asyncio.create_task(hive.run(until_empty=True))
        of_the_worker.open()
        await of_the_hive.reached.wait()
        await broker.inner.send("jobs", [jobs.draft(Work(), delay=100)])
        hive.stop()
        of_the_hive.open()
        await asyncio.wait({run}, timeout=0.3)
        ended = run.done()
        hive.stop()
        await run

    assert ended


@pytest.mark.parametrize("error", [bee.OutcomeUnknown("lost"), OSError("reset"), TimeoutError()])
async def test_until_empty_bears_any_trouble_with_its_look(error: Exception) -> None:
    broker = FaultyBroker(MemoryBroker())
    hive = bee.Hive(broker=broker, observers=())
    jobs = hive.queue("jobs", Work)
    jobs.handler(nothing)
    of_the_worker, of_the_hive = broker.gate("stats"), broker.gate("stats")
    async with hive:
        run = asyncio.create_task(hive.run(until_empty=True))
        of_the_worker.open()
        await of_the_hive.reached.wait()
        broker.fail("stats", error)
        of_the_hive.open()
        await run
