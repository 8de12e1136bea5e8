"""Handlers and observers that meddle with the program they run in."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import Counter

import pytest

import bee_core as bee
from bee_core.events import AttemptSettled, AttemptStarted, WorkerStopped
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, begin, heard, nothing, settled, until
from .test_ahead import FarAway

FOREVER = bee.Policy(timeout=None)


def bee_tasks(name: str) -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith(name)]


async def test_a_task_that_a_handler_starts_may_outlive_it() -> None:
    done: list[str] = []
    go_on = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def later() -> None:
        await go_on.wait()
        done.append("later")

    async def handle(job: Work) -> None:
        tasks.append(asyncio.create_task(later()))

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)
        go_on.set()
        await tasks[0]

    assert ["later"] == done


async def test_a_handler_may_stop_its_own_hive() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, concurrency=1)
    done: list[str] = []

    @jobs.handler
    async def handle(job: Work) -> None:
        hive.stop()
        await asyncio.sleep(0)
        done.append(job.what)

    async with hive:
        await jobs.send(Work("first"))
        await jobs.send(Work("second"))
        await hive.run()

        assert ["first"] == done
        assert 1 == (await hive.broker.stats("jobs")).ready


async def test_a_handler_may_stop_its_own_hive_at_once_and_is_interrupted_itself() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work)

    @jobs.handler
    async def handle(job: Work) -> None:
        hive.stop(grace=0)
        await asyncio.Event().wait()

    async with hive:
        await jobs.send(Work(), id="a")
        await hive.run()
        stored = await hive.broker.get("jobs", "a")

        assert stored is not None
        expected = bee.Counters(deliveries=1, releases=1)
        assert (bee.State.READY, expected) == (stored.state, stored.counters)


async def test_a_handler_that_cancels_every_task_ends_the_worker_and_loses_nothing() -> None:
    async def handle(job: Work) -> None:
        if job.what == "bad":
            for task in asyncio.all_tasks() - {asyncio.current_task(), owner}:
                task.cancel()

    owner = asyncio.current_task()
    broker = bee.connect("memory://")
    policy = bee.Policy(on_success=bee.Archive())
    worker = bee.Worker(broker, "jobs", Work, handle, lease=0.05, policy=policy)
    await worker.queue.send(Work("bad"), id="bad")
    await worker.queue.send(Work("good"), id="good")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(worker.run())

    stats = await broker.stats("jobs")
    assert 2 == stats.live + sum(stats.archived.values())
    await broker.aclose()


@pytest.mark.parametrize("name", ["bee:settler", "bee:watch"])
async def test_a_worker_whose_own_task_was_cancelled_goes_on_or_ends_but_does_not_pretend(
    name: str, bee_clock: ManualClock
) -> None:
    async def handle(job: Work) -> None:
        if job.what == "hang":
            await asyncio.Event().wait()

    broker = MemoryBroker(clock=bee_clock)
    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=(), policy=policy)
    run = asyncio.create_task(worker.run())
    await until(lambda: bee_tasks(name))
    for task in bee_tasks(name):
        task.cancel()
    await worker.queue.send(Work(), id="a")
    await worker.queue.send(Work("hang"), id="b")
    await bee_clock.advance(100)
    ended = run.done()
    left = (await broker.stats("jobs")).live
    worker.kill()
    await asyncio.gather(run, return_exceptions=True)
    await broker.aclose()

    assert ended or left == 0


@pytest.mark.parametrize("kind", [AttemptStarted, AttemptSettled])
async def test_an_observer_that_raises_a_cancellation_does_not_break_the_worker(
    kind: type, bee_clock: ManualClock
) -> None:
    def observe(event: bee.Event) -> None:
        if isinstance(event, kind):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            future.result()

    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=(observe,))
    run = asyncio.create_task(worker.run())
    await until(lambda: bee_tasks("bee:settler"))
    for id in ("a", "b", "c"):
        await worker.queue.send(Work(), id=id)
        await bee_clock.advance(1)
    left, ended = (await broker.stats("jobs")).live, run.done()
    worker.kill()
    await asyncio.gather(run, return_exceptions=True)
    await broker.aclose()

    assert (0, False) == (left, ended)


async def test_an_observer_that_raises_does_not_break_the_worker_or_the_other_observers() -> None:
    heard_of: list[bee.Event] = []

    def observe(event: bee.Event) -> None:
        raise ValueError("no")

    broker = bee.connect("memory://")
    worker = bee.Worker(broker, "jobs", Work, nothing, observers=(observe, heard_of.append))
    await worker.queue.send(Work(), id="a")
    await worker.run(until_empty=True)

    names = Counter(type(event).__name__ for event in heard_of)
    assert (
        Counter({"WorkerStarted": 1, "AttemptStarted": 1, "AttemptSettled": 1, "WorkerStopped": 1})
        == names
    )
    await broker.aclose()


async def test_jobs_share_no_context_with_one_another() -> None:
    seen: list[str] = []
    variable = contextvars.ContextVar("variable", default="clean")

    async def handle(job: Work) -> None:
        seen.append(variable.get())
        variable.set("dirty")

    async with at_work(handle, concurrency=1) as (bees, jobs):
        await jobs.send(Work())
        await jobs.send(Work())
        await bees.drain()

    assert ["clean", "clean"] == seen


async def test_a_handler_that_sends_to_its_own_queue_is_followed_by_what_it_sent() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, concurrency=1)

    @jobs.handler
    async def handle(job: Work) -> None:
        if job.number:
            await jobs.send(Work(number=job.number - 1))

    async with hive:
        await jobs.send(Work(number=50))
        await hive.run(until_empty=True)

        assert 0 == (await hive.broker.stats("jobs")).live


async def test_a_worker_killed_in_the_middle_leaves_its_jobs_to_the_next() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    async with at_work(handle, policy=FOREVER) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await bees.crash()
        go_on.set()
        await begin(bees)

        assert ["a"] == bees.runs

        await bees.advance(LEASE)

        assert ["a", "a"] == bees.runs
        assert [0] == [event.settled for event in heard(bees, WorkerStopped)]
        assert Counter({("a", "Succeeded", "Delete"): 1}) == settled(bees)


async def test_a_worker_that_ends_in_an_odd_way_takes_its_handlers_with_it(
    bee_clock: ManualClock,
) -> None:
    running: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        running.append(delivery.id)
        try:
            await asyncio.Event().wait()
        finally:
            running.remove(delivery.id)

    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=(), policy=FOREVER)
    await worker.queue.send(Work(), id="a")
    run = asyncio.create_task(worker.run())
    await until(lambda: running)
    for task in bee_tasks("bee:worker"):
        task.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await asyncio.sleep(0)
    left = list(running)
    for task in bee_tasks("bee:jobs"):
        task.cancel()

    assert [] == left


async def test_a_worker_that_ends_in_an_odd_way_fails_none_of_its_jobs(
    bee_clock: ManualClock,
) -> None:
    begun: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        begun.append(delivery.id)
        await asyncio.Event().wait()

    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=(), policy=FOREVER)
    await worker.queue.send(Work(), id="a")
    run = asyncio.create_task(worker.run())
    await until(lambda: begun)
    for task in bee_tasks("bee:worker"):
        task.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await asyncio.sleep(0.01)

    stats = await broker.stats("jobs")
    assert (1, {}) == (stats.live, dict(stats.archived))


async def test_a_job_that_another_cancels_before_it_has_begun_is_not_held_for_ever() -> None:
    async def handle(job: Work) -> None:
        for task in bee_tasks("bee:jobs:"):
            if task is not asyncio.current_task():
                task.cancel()

    async with at_work(handle, policy=FOREVER) as (bees, jobs):
        await jobs.send_many([Work(), Work()])
        await bees.clock.settle()
        await bees.advance(2)

        ends = [type(event.outcome).__name__ for event in heard(bees, AttemptSettled)]
        assert ["Succeeded", "Failed"] == ends[:2]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
async def test_jobs_run_where_tasks_begin_as_they_are_made() -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        if job.number % 3 == 0:
            await asyncio.sleep(0.001)
        done.append(job.number)

    broker = FarAway()
    worker = bee.Worker(broker, "jobs", Work, handle, concurrency=2)
    queue = bee.Queue(broker, "jobs", Work)
    await queue.send_many(Work(number=number) for number in range(500))
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009

    await asyncio.wait_for(worker.run(until_empty=True), 20)

    assert list(range(500)) == sorted(done)


async def test_a_worker_that_cannot_see_to_the_end_of_a_job_fails_and_says_so() -> None:
    def chance() -> float:
        raise ZeroDivisionError

    broker = MemoryBroker()
    worker = bee.Worker(broker, "jobs", Work, nothing, chance=chance)
    await bee.Queue(broker, "jobs", Work).send(Work())

    with pytest.raises(bee.BeeError, match="the end of a job failed: ZeroDivisionError"):
        await asyncio.wait_for(worker.run(), 20)


async def test_a_job_that_stops_its_worker_and_ends_is_settled() -> None:
    broker = MemoryBroker()

    async def handle(job: Work) -> None:
        worker.stop(grace=0)

    worker = bee.Worker(broker, "jobs", Work, handle)
    await bee.Queue(broker, "jobs", Work).send(Work())

    await asyncio.wait_for(worker.run(), 20)

    stats = await broker.stats("jobs")
    assert (0, 0) == (stats.ready, stats.leased)


async def test_a_job_that_kills_its_worker_and_ends_is_not_settled() -> None:
    broker = MemoryBroker()

    async def handle(job: Work) -> None:
        worker.kill()

    worker = bee.Worker(broker, "jobs", Work, handle)
    await bee.Queue(broker, "jobs", Work).send(Work())

    await asyncio.wait_for(worker.run(), 20)

    assert 1 == (await broker.stats("jobs")).leased
