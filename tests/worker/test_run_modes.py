"""How long a worker runs: for ever, for a number of jobs, or until its queue is empty."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import bee_core as bee
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, STEADY, Work, at_work, nothing, until

POLL = 600.0


class Bench:
    """A worker on a clock that is moved, and what it did."""

    def __init__(self, clock: ManualClock, **options: object) -> None:
        self.clock = clock
        self.broker = FaultyBroker(MemoryBroker(clock=clock))
        self.runs: list[str] = []
        self.worker = bee.Worker(
            self.broker,
            "jobs",
            Work,
            self.handle,
            clock=clock,
            observers=(),
            **{"poll": POLL} | options,  # type: ignore[arg-type]
        )

    async def handle(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.runs.append(delivery.id)
        if job.what == "fail":
            raise ValueError("no")
        await self.clock.sleep(job.number)

    async def send(self, *ids: str, what: str = "", number: int = 0, delay: float = 0) -> None:
        for id in ids:
            await self.worker.queue.send(Work(what, number), id=id, delay=delay)

    async def run(self, **mode: object) -> asyncio.Task[None]:
        task = asyncio.create_task(self.worker.run(**mode))  # type: ignore[arg-type]
        await until(lambda: task.done() or self.broker.calls["lease"])
        await self.clock.settle()
        return task

    async def ends(self, task: asyncio.Task[None]) -> None:
        await asyncio.wait({task}, timeout=2)
        assert task.done()
        task.result()


async def test_a_worker_that_was_told_nothing_runs_for_ever(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    task = await bench.run()
    for day in range(5):
        await bench.send(f"day-{day}")
        await bee_clock.advance(3600)

    assert not task.done()
    assert [f"day-{day}" for day in range(5)] == bench.runs
    bench.worker.stop()
    await bench.ends(task)


@pytest.mark.parametrize("concurrency", [1, 3, 10])
@pytest.mark.parametrize("jobs", [0, 1, 2, 7])
async def test_max_jobs_means_exactly_as_many(
    jobs: int, concurrency: int, bee_clock: ManualClock
) -> None:
    bench = Bench(bee_clock, concurrency=concurrency)
    await bench.send(*(str(number) for number in range(12)))
    task = await bench.run(max_jobs=jobs)
    await bench.ends(task)

    assert [str(number) for number in range(jobs)] == bench.runs
    stats = await bench.broker.stats("jobs")
    assert (12 - jobs, 0) == (stats.ready, stats.leased)


async def test_max_jobs_waits_for_jobs_that_are_not_there_yet(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    task = await bench.run(max_jobs=2)
    await bench.send("a")
    await bee_clock.advance(100)
    assert not task.done()
    await bench.send("b", "c")
    await bee_clock.advance(1)
    await bench.ends(task)

    assert ["a", "b"] == bench.runs


async def test_max_jobs_lets_the_last_one_take_its_time(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock, policy=bee.Policy(timeout=None), grace=1)
    await bench.send("a", number=10 * int(LEASE))
    task = await bench.run(max_jobs=1)
    await bee_clock.advance(9 * LEASE)
    assert not task.done()
    await bee_clock.advance(2 * LEASE)
    await bench.ends(task)

    assert 0 == (await bench.broker.stats("jobs")).live


async def test_an_empty_queue_is_empty_at_once(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    task = await bench.run(until_empty=True)
    await bench.ends(task)

    assert [] == bench.runs


async def test_until_empty_waits_for_delayed_jobs(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    await bench.send("now")
    await bench.send("later", delay=86_400)
    task = await bench.run(until_empty=True)
    await bee_clock.advance(86_399)
    assert not task.done()
    await bee_clock.advance(2)
    await bench.ends(task)

    assert ["now", "later"] == bench.runs


async def test_until_empty_waits_for_repeats(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock, policy=bee.Policy(on_error=bee.Repeat(2), backoff=STEADY))
    await bench.send("a", what="fail")
    task = await bench.run(until_empty=True)
    await bee_clock.advance(2 + 4)
    await bench.ends(task)

    assert ["a"] * 3 == bench.runs


async def test_until_empty_waits_for_what_others_hold(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    await bench.send("a", "b")
    (lease,) = await bench.broker.inner.lease("jobs", limit=1, duration=500, holder="other")
    task = await bench.run(until_empty=True)
    await bee_clock.advance(400)
    assert not task.done()
    await bench.broker.inner.settle("jobs", [bee.Settlement(lease.receipt, bee.Delete())])
    await bee_clock.advance(POLL)
    await bench.ends(task)

    assert ["b"] == bench.runs


async def test_until_empty_takes_over_what_others_let_go(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    await bench.send("a")
    await bench.broker.inner.lease("jobs", limit=1, duration=500, holder="dead")
    task = await bench.run(until_empty=True)
    await bee_clock.advance(502)
    await bench.ends(task)

    assert ["a"] == bench.runs


async def test_until_empty_waits_for_the_jobs_that_still_run(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock, concurrency=3, policy=bee.Policy(timeout=None))
    await bench.send("a", number=1000)
    await bench.send("b", "c")
    task = await bench.run(until_empty=True)
    await bee_clock.advance(999)
    assert not task.done()
    await bee_clock.advance(1)
    await bench.ends(task)


async def test_until_empty_runs_what_its_jobs_send(bee_clock: ManualClock) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if job.number:
            delivery.then(Work(number=job.number - 1))
            delivery.then(Work(number=job.number - 1))

    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=())
    await worker.queue.send(Work(number=7))
    await worker.run(until_empty=True)

    assert 0 == (await broker.stats("jobs")).live


async def test_until_empty_needs_no_poll_to_see_that_the_last_job_has_ended(
    bee_clock: ManualClock,
) -> None:
    bench = Bench(bee_clock, poll=86_400, policy=bee.Policy(timeout=None))
    await bench.send("a", "b", number=5)
    task = await bench.run(until_empty=True)
    await bee_clock.advance(5)
    await bench.ends(task)


async def test_until_empty_can_be_stopped(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    await bench.send("a", delay=1000)
    task = await bench.run(until_empty=True)
    bench.worker.stop()
    await bench.ends(task)

    assert 1 == (await bench.broker.stats("jobs")).delayed


async def test_until_empty_needs_a_broker_that_can_be_asked(bee_clock: ManualClock) -> None:
    class Blind:
        """The verbs of a Broker, and no more."""

        def __init__(self) -> None:
            self._inner = MemoryBroker(clock=bee_clock)
            for verb in ("send", "lease", "extend", "settle", "cancel", "wait", "aclose"):
                setattr(self, verb, getattr(self._inner, verb))

        def clone(self) -> Blind:
            return self

    worker = bee.Worker(Blind(), "jobs", Work, nothing, clock=bee_clock, observers=())  # type: ignore[arg-type]
    with pytest.raises(bee.InvalidOption, match="Inspector"):
        await worker.run(until_empty=True)
    await worker.queue.send(Work())
    await worker.run(max_jobs=1)


async def test_a_paused_queue_is_waited_for(bee_clock: ManualClock) -> None:
    bench = Bench(bee_clock)
    await bench.send("a")
    await bench.broker.pause("jobs")
    task = await bench.run(until_empty=True)
    await bee_clock.advance(1000)
    assert ([], False) == (bench.runs, task.done())
    await bench.broker.resume("jobs")
    await bee_clock.advance(1)
    await bench.ends(task)

    assert ["a"] == bench.runs


async def test_an_idle_worker_asks_seldom_and_still_starts_a_job_at_once(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock, poll=1) as (bees, jobs):
        before = bees.broker.calls["lease"]
        await bees.advance(60)
        assert bees.broker.calls["lease"] - before <= 61

        await jobs.send(Work(), id="a")
        await bees.clock.settle()

        assert ["a"] == bees.runs


async def test_a_worker_that_misses_every_wake_up_looks_again_after_its_poll(
    bee_clock: ManualClock,
) -> None:
    class Deaf(FaultyBroker):
        async def wait(self, queue: str, *, timeout: float) -> None:
            await bee_clock.sleep(timeout)

    broker = Deaf(MemoryBroker(clock=bee_clock))
    seen: Counter[str] = Counter()

    async def handle(job: Work) -> None:
        seen[job.what] += 1

    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, poll=5, observers=())
    async with worker.working():
        await until(lambda: broker.calls["lease"])
        await worker.queue.send(Work("a"))
        await bee_clock.advance(4.9)
        assert Counter() == seen
        await bee_clock.advance(0.1)
        assert Counter({"a": 1}) == seen


async def test_a_worker_that_is_killed_before_it_has_begun_has_ended(
    bee_clock: ManualClock,
) -> None:
    worker = Bench(bee_clock).worker
    task = asyncio.create_task(worker.run())
    await asyncio.sleep(0)

    worker.kill()

    async with asyncio.timeout(2):
        await worker.started()
        await task
    assert worker.ended
