"""Cancelling the task that runs a worker, killing it, and stopping it at odd moments."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter

import pytest

import bee_core as bee
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import Work, hive_for, nothing, until

FOREVER = bee.Policy(timeout=None)


class Hanging:
    """A worker whose jobs hang until they are cancelled."""

    def __init__(self, clock: ManualClock, jobs: int = 2) -> None:
        self.broker = FaultyBroker(MemoryBroker(clock=clock))
        self.events: list[bee.Event] = []
        self.cancelled: list[str] = []
        self.begun: list[str] = []
        self.jobs = jobs
        self.worker = bee.Worker(
            self.broker,
            "jobs",
            Work,
            self.handle,
            clock=clock,
            policy=FOREVER,
            observers=(self.events.append,),
        )

    async def handle(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.begun.append(delivery.id)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(delivery.id)
            raise

    async def start(self) -> asyncio.Task[None]:
        for number in range(self.jobs):
            await self.worker.queue.send(Work(), id=str(number))
        task = asyncio.create_task(self.worker.run())
        await until(lambda: len(self.begun) == self.jobs)
        return task

    async def ready(self) -> int:
        return (await self.broker.inner.stats("jobs")).ready

    def kinds(self) -> Counter[str]:
        return Counter(type(event).__name__ for event in self.events)


async def test_cancelling_the_run_gives_the_jobs_back_and_is_then_honoured(
    bee_clock: ManualClock,
) -> None:
    hanging = Hanging(bee_clock)
    task = await hanging.start()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert Counter("01") == Counter(hanging.cancelled)
    assert 2 == await hanging.ready()
    assert 1 == hanging.kinds()["WorkerStopped"]


async def test_a_timeout_around_the_run_ends_it(bee_clock: ManualClock) -> None:
    hanging = Hanging(bee_clock)
    task = await hanging.start()

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await task

    with pytest.raises(TimeoutError):
        await limited()

    assert 2 == await hanging.ready()


async def test_cancelling_an_idle_run_ends_it(bee_clock: ManualClock) -> None:
    hanging = Hanging(bee_clock, jobs=0)
    task = await hanging.start()
    await until(lambda: hanging.broker.calls["wait"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_twice_still_gives_the_jobs_back(
    turns: int, bee_clock: ManualClock
) -> None:
    hanging = Hanging(bee_clock)
    task = await hanging.start()
    task.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    left = await hanging.ready(), hanging.kinds()["WorkerStopped"]
    await until(lambda: hanging.kinds()["WorkerStopped"])

    assert (2, 1) == left


@pytest.mark.parametrize("turns", range(12))
async def test_cancelling_at_any_moment_of_the_start_leaves_nothing_behind(
    turns: int, bee_clock: ManualClock
) -> None:
    hanging = Hanging(bee_clock)
    for number in range(2):
        await hanging.worker.queue.send(Work(), id=str(number))
    task = asyncio.create_task(hanging.worker.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert 2 == await hanging.ready()


@pytest.mark.parametrize("turns", range(12))
async def test_stopping_at_any_moment_of_the_start_ends_the_run(
    turns: int, bee_clock: ManualClock
) -> None:
    hanging = Hanging(bee_clock)
    for number in range(2):
        await hanging.worker.queue.send(Work(), id=str(number))
    task = asyncio.create_task(hanging.worker.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    hanging.worker.stop(grace=0)
    await task

    assert 2 == await hanging.ready()


async def test_a_worker_that_was_stopped_before_it_ran_takes_nothing(
    bee_clock: ManualClock,
) -> None:
    hanging = Hanging(bee_clock)
    await hanging.worker.queue.send(Work())
    hanging.worker.stop()
    await hanging.worker.run()

    assert 0 == hanging.broker.calls["lease"]
    assert 1 == await hanging.ready()


async def test_a_worker_runs_once(bee_clock: ManualClock) -> None:
    hanging = Hanging(bee_clock, jobs=0)
    task = await hanging.start()
    await until(lambda: hanging.broker.calls["wait"])
    with pytest.raises(bee.InvalidOption, match="runs once"):
        await hanging.worker.run()
    hanging.worker.stop()
    await task
    with pytest.raises(bee.InvalidOption, match="runs once"):
        await hanging.worker.run()


def heartbeats_left(worker: bee.Worker[Work]) -> list[str]:
    """The threads of heartbeats that do not end by themselves. They are ended here."""
    threads = [thread for thread in threading.enumerate() if "heartbeat" in thread.name]
    for thread in threads:
        thread.join(0.02)
    left = [thread for thread in threads if thread.is_alive()]
    worker._heartbeat._stopping = True
    worker._heartbeat._alarm.ring()
    for thread in left:
        thread.join(1)
    return [thread.name for thread in left]


@pytest.mark.parametrize("turns", range(8))
async def test_killing_at_any_moment_of_the_start_leaves_no_thread(
    turns: int, bee_clock: ManualClock
) -> None:
    hanging = Hanging(bee_clock)
    await hanging.worker.queue.send(Work())
    task = asyncio.create_task(hanging.worker.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    hanging.worker.kill()
    await task

    assert [] == heartbeats_left(hanging.worker)


@pytest.mark.parametrize("first", ["kill", "stop"])
async def test_killing_twice_leaves_no_task(first: str, bee_clock: ManualClock) -> None:
    closing = threading.Event()

    class SlowToClose(MemoryBroker):
        async def aclose(self) -> None:
            closing.wait(1)
            await super().aclose()

    worker = bee.Worker(SlowToClose(clock=bee_clock), "jobs", Work, nothing, clock=bee_clock)
    task = asyncio.create_task(worker.run())
    await until(lambda: any(t.get_name() == "bee:watch" for t in asyncio.all_tasks()))
    if first == "kill":
        worker.kill()
    else:
        worker.stop(grace=0)
    await asyncio.sleep(0.01)
    worker.kill()
    await asyncio.sleep(0.01)
    closing.set()
    await task
    await asyncio.sleep(0.01)
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("bee:")]
    for task_left in left:
        task_left.cancel()

    assert [] == left


async def test_killing_during_the_last_settlements_leaves_no_task(bee_clock: ManualClock) -> None:
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
    before = asyncio.all_tasks()
    gate = broker.gate("settle")
    await worker.queue.send(Work())
    task = asyncio.create_task(worker.run())
    await gate.reached.wait()
    worker.stop(grace=0)
    await asyncio.sleep(0.01)
    worker.kill()
    await task
    await asyncio.sleep(0.01)
    left = asyncio.all_tasks() - before
    for task_left in left:
        task_left.cancel()

    assert set() == left


async def test_cancelling_is_honoured_even_if_a_thread_cannot_be_stopped(
    bee_clock: ManualClock,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handle(job: Work) -> None:
        begun.set()
        go_on.wait(5)

    broker = MemoryBroker(clock=bee_clock)
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, concurrency=1)
    await worker.queue.send(Work())
    task = asyncio.create_task(worker.run())
    await until(begun.is_set)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    go_on.set()

    assert isinstance(outcome, asyncio.CancelledError)


async def test_a_failure_that_a_cancellation_overtakes_is_not_complained_about(
    bee_clock: ManualClock,
) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, told: complaints.append(str(told["message"]))
    )
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
    gate = broker.gate("lease")
    broker.fail("lease", bee.BrokerMisconfigured("no"))
    task = asyncio.create_task(worker.run())
    await gate.reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(task, return_exceptions=True)
    del task, worker, broker, gate
    await asyncio.sleep(0.01)
    gc.collect()

    assert [] == complaints


async def test_working_for_no_time_at_all_ends() -> None:
    hive, _ = hive_for(nothing)

    async def work() -> None:
        async with hive, hive.working():
            pass

    task = asyncio.create_task(work())
    await asyncio.wait({task}, timeout=0.3)
    ended = task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert ended


async def test_a_service_that_fails_at_once_is_not_held_up_by_its_worker() -> None:
    hive, _ = hive_for(nothing)

    async def serve() -> None:
        async with hive, hive.working():
            raise ValueError("no port")

    task = asyncio.create_task(serve())
    await asyncio.wait({task}, timeout=0.3)
    ended = task.done()
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)

    assert ended
    assert isinstance(outcome, ValueError)


async def test_jobs_that_are_cancelled_together_with_their_worker_have_not_failed() -> None:
    hanging = Hanging(ManualClock())
    running = await hanging.start()
    others = asyncio.all_tasks() - {asyncio.current_task()}

    for task in others:  # as asyncio.run does at its end
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

    assert running.cancelled()
    assert ["0", "1"] == sorted(hanging.cancelled)
    for id in "01":
        stored = await hanging.broker.get("jobs", id)
        assert stored is not None
        assert 0 == stored.counters.errors
