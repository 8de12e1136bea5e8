"""A hive: several queues at work together, inside a program that has other things to do."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

import pytest

import bee_core as bee
from bee_core.events import WorkerStarted
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import Work, hive_for, nothing, until


class Other(bee.Job):
    """A job of another queue."""

    number: int = 0


async def test_a_hive_without_any_handler_does_not_run() -> None:
    hive = bee.Hive("memory://")
    hive.queue("jobs", Work)
    with pytest.raises(bee.NoHandler, match="no queue with a handler"):
        await hive.run()
    with pytest.raises(bee.NoHandler):
        async with hive.working():
            await asyncio.sleep(0)


async def test_a_queue_with_a_class_that_nobody_handles_does_not_run() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work | Other)
    jobs.on(Work)(nothing)
    with pytest.raises(bee.NoHandler, match="Other"):
        await hive.run()


async def test_a_queue_without_a_handler_is_left_alone_beside_one_with() -> None:
    hive, jobs = hive_for(nothing)
    silent = hive.queue("silent", Other)
    async with hive:
        await jobs.send(Work())
        await silent.send(Other())
        await hive.run(until_empty=True)

        assert 0 == (await hive.broker.stats("jobs")).live
        assert 1 == (await hive.broker.stats("silent")).ready


async def test_a_start_that_is_cancelled_is_over_when_the_cancellation_arrives(
    bee_clock: ManualClock,
) -> None:
    slow = threading.Event()

    class Slow(MemoryBroker):
        def clone(self) -> MemoryBroker:
            if threading.current_thread() is not threading.main_thread():
                slow.wait(1)
            return super().clone()

    hive = bee.Hive(broker=Slow(clock=bee_clock), clock=bee_clock, observers=())
    hive.queue("jobs", Work).handler(nothing)
    before = asyncio.all_tasks()

    async def serve() -> None:
        async with hive.working():
            pass

    task = asyncio.create_task(serve())
    await until(lambda: any("heartbeat" in thread.name for thread in threading.enumerate()))
    task.cancel()
    timer = threading.Timer(0.02, slow.set)
    timer.start()
    await asyncio.gather(task, return_exceptions=True)
    left = {one.get_name() for one in asyncio.all_tasks() - before}
    slow.set()
    timer.join()

    assert set() == left


async def test_a_hive_works_while_the_program_does_something_else() -> None:
    seen: list[str] = []

    async def handle(job: Work) -> None:
        seen.append(job.what)

    hive, jobs = hive_for(handle)
    async with hive, hive.working():
        await jobs.send(Work("a"))
        await until(lambda: seen)
        await jobs.send(Work("b"))
        await until(lambda: len(seen) == 2)

    assert ["a", "b"] == seen


async def test_a_hive_may_work_again_after_it_was_closed() -> None:
    seen: list[str] = []

    async def handle(job: Work) -> None:
        seen.append(job.what)

    hive, jobs = hive_for(handle)
    for what in ("a", "b"):
        async with hive:
            await jobs.send(Work(what))
            await hive.run(until_empty=True)

    assert ["a", "b"] == seen


def test_a_hive_may_work_again_in_another_event_loop() -> None:
    seen: list[str] = []

    async def handle(job: Work) -> None:
        seen.append(job.what)

    hive, jobs = hive_for(handle)

    async def program(what: str) -> None:
        async with hive:
            await jobs.send(Work(what))
            await hive.run(until_empty=True)

    for what in ("a", "b"):
        asyncio.run(program(what))

    assert ["a", "b"] == seen


async def test_stopping_a_hive_stops_all_of_its_workers() -> None:
    hive = bee.Hive("memory://")
    for name in ("one", "two", "three"):
        hive.queue(name, Work).handler(nothing)
    events: list[bee.Event] = []
    with hive.substitute(MemoryBroker(), observers=(events.append,)):
        run = asyncio.create_task(hive.run())
        await until(lambda: len(events) == 3)
        hive.stop()
        await run

    assert Counter({"WorkerStarted": 3, "WorkerStopped": 3}) == Counter(
        type(event).__name__ for event in events
    )


async def test_cancelling_a_hive_gives_back_the_jobs_of_all_queues(bee_clock: ManualClock) -> None:
    broker = MemoryBroker(clock=bee_clock)
    hive = bee.Hive(broker=broker, clock=bee_clock, observers=())
    begun: list[str] = []

    async def hang(job: Work, delivery: bee.Delivery[Work]) -> None:
        begun.append(delivery.queue)
        await asyncio.Event().wait()

    queues = [hive.queue(name, Work) for name in ("one", "two")]
    for queue in queues:
        queue.handler(hang)
        await queue.send(Work())
    run = asyncio.create_task(hive.run())
    await until(lambda: len(begun) == 2)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert [1, 1] == [(await broker.stats(queue.name)).ready for queue in queues]


async def test_a_worker_that_fails_stops_the_others_and_is_heard_of(
    bee_clock: ManualClock,
) -> None:
    broker = MemoryBroker(clock=bee_clock)
    hive = bee.Hive(broker=broker, clock=bee_clock, observers=(), concurrency=1, poll=1e6)
    let_go = asyncio.Event()
    begun: list[str] = []

    async def deaf(job: Work, delivery: bee.Delivery[Work]) -> None:
        begun.append(delivery.queue)
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async def hang(job: Work, delivery: bee.Delivery[Work]) -> None:
        begun.append(delivery.queue)
        await asyncio.Event().wait()

    bad = hive.queue("bad", Work, policy=bee.Policy(timeout=1))
    good = hive.queue("good", Work, policy=bee.Policy(timeout=None))
    bad.handler(deaf)
    good.handler(hang)
    await bad.send(Work())
    await good.send(Work())
    run = asyncio.create_task(hive.run())
    await until(lambda: len(begun) == 2)
    while not run.done():
        await bee_clock.advance(1)
        await asyncio.wait({run}, timeout=0.001)
    let_go.set()

    with pytest.raises(bee.WorkerStuck):
        await run
    assert 1 == (await broker.stats("good")).ready


async def test_a_worker_that_is_gone_is_not_overlooked_by_its_hive(bee_clock: ManualClock) -> None:
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    hive = bee.Hive(broker=broker, clock=bee_clock, observers=())
    hive.queue("one", Work).handler(nothing)
    hive.queue("two", Other).handler(nothing)
    leak: Exception = asyncio.CancelledError()  # type: ignore[assignment]
    broker.fail("lease", leak)
    run = asyncio.create_task(hive.run())
    await until(lambda: broker.calls["lease"] >= 2)
    for name in ("one", "two"):
        await hive.queues[name].send(Work() if name == "one" else Other())
    await bee_clock.advance(100)
    left = [(await broker.inner.stats(name)).live for name in ("one", "two")]
    ended = run.done()
    hive.kill()
    await asyncio.gather(run, return_exceptions=True)

    assert ended or left == [0, 0]


async def test_the_same_id_in_two_queues_is_two_jobs() -> None:
    hive = bee.Hive("memory://")
    seen: Counter[str] = Counter()

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen[f"{delivery.queue}/{delivery.id}"] += 1
        await asyncio.sleep(0)

    queues = [hive.queue(name, Work) for name in ("one", "two")]
    async with hive:
        for queue in queues:
            queue.handler(handle)
            await queue.send(Work(), id="a")
        await hive.run(until_empty=True)

    assert Counter({"one/a": 1, "two/a": 1}) == seen


async def test_two_workers_in_one_process_share_the_work_and_do_each_job_once() -> None:
    broker = MemoryBroker()
    done: list[tuple[str, int]] = []

    def handler(name: str) -> Callable[[Work], object]:
        async def handle(job: Work) -> None:
            await asyncio.sleep(0)
            done.append((name, job.number))

        return handle

    workers = [
        bee.Worker(broker, "jobs", Work, handler(name), concurrency=3, observers=())
        for name in ("one", "two")
    ]
    await workers[0].queue.send_many([Work(number=number) for number in range(3000)])
    await asyncio.gather(*(worker.run(until_empty=True) for worker in workers))

    assert Counter(range(3000)) == Counter(number for _, number in done)
    assert {"one", "two"} == {name for name, _ in done}


async def test_workers_in_two_threads_share_the_work_and_do_each_job_once() -> None:
    broker = MemoryBroker()
    done: list[int] = []

    async def handle(job: Work) -> None:
        await asyncio.sleep(0)
        done.append(job.number)

    await bee.Queue(broker, "jobs", Work).send_many([Work(number=n) for n in range(400)])

    def program() -> None:
        async def work() -> None:
            async with broker.clone() as own:
                worker = bee.Worker(own, "jobs", Work, handle, poll=0.01, observers=())
                await worker.run(until_empty=True)

        asyncio.run(work())

    threads = [threading.Thread(target=program) for _ in range(4)]
    for thread in threads:
        thread.start()
    await until(lambda: not any(thread.is_alive() for thread in threads))

    assert Counter(range(400)) == Counter(done)


async def test_a_hive_names_each_of_its_workers_differently() -> None:
    events: list[bee.Event] = []
    hive = bee.Hive("memory://", observers=(events.append,))
    for name in ("one", "two"):
        hive.queue(name, Work).handler(nothing)
    async with hive:
        await hive.run(until_empty=True)

    holders = {event.holder for event in events if isinstance(event, WorkerStarted)}
    assert len(holders) >= 2
