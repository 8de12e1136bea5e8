"""A broker that fails, verb by verb, before and after its work: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import BrokerRecovered, BrokerTrouble
from bee_core.testing import FaultyBroker, HiveUnderTest, ManualClock
from bee_core.testing.faults import When
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, heard, live, nothing, reasons, under_test, until

ERRORS = [
    bee.BrokerUnavailable("away"),
    bee.OutcomeUnknown("lost"),
    bee.BrokerFull("full"),
    OSError("broken pipe"),
    RuntimeError("a bug of a driver"),
    KeyError("odd"),
]
PASSING = ERRORS[:4]
IDS = [f"job-{number}" for number in range(7)]


def verbs(bees: HiveUnderTest, kind: type[BrokerTrouble] | type[BrokerRecovered]) -> Counter[str]:
    return Counter(event.verb for event in heard(bees, kind))


async def send_all(jobs: bee.HiveQueue[Work]) -> None:
    await jobs.send_many([jobs.draft(Work(), id=id) for id in IDS])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", ["lease", "wait", "settle"])
async def test_whatever_fails_and_whenever_every_job_is_done_in_the_end(
    verb: str, error: Exception, when: When
) -> None:
    async with at_work(nothing, concurrency=3) as (bees, jobs):
        bees.broker.fail(verb, error, times=3, when=when)
        await send_all(jobs)
        await bees.advance(1000)

        assert set(IDS) == set(bees.runs)
        assert (0, Counter()) == (await live(bees), await reasons(bees))

        before = len(bees.runs)
        await jobs.send(Work(), id="later")
        await bees.advance(100)

        assert ["later"] == bees.runs[before:]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", ["lease", "wait", "settle"])
async def test_a_call_that_was_not_done_is_repeated_and_no_job_runs_twice(
    verb: str, error: Exception
) -> None:
    async with at_work(nothing, concurrency=3) as (bees, jobs):
        bees.broker.fail(verb, error, times=5)
        await send_all(jobs)
        await bees.advance(1000)

        assert Counter(IDS) == Counter(bees.runs)
        assert Counter({verb: 1}) == verbs(bees, BrokerTrouble)
        assert Counter({verb: 1}) == verbs(bees, BrokerRecovered)


@pytest.mark.parametrize("seconds", [1, 10, 20, 100])
async def test_an_outage_is_told_once_and_so_is_its_end(seconds: float) -> None:
    async with at_work(nothing) as (bees, jobs):
        for outage in (1, 2):
            bees.broker.go_down(bee.BrokerUnavailable("away"))
            await bees.broker.inner.send("jobs", [jobs.draft(Work(), id=f"job-{outage}")])
            await bees.advance(seconds)
            bees.broker.come_back()
            await bees.advance(10)

            assert Counter({"lease": outage}) == verbs(bees, BrokerTrouble)
            assert Counter({"lease": outage}) == verbs(bees, BrokerRecovered)
        assert ["job-1", "job-2"] == bees.runs


async def test_an_outage_is_met_with_few_calls(bee_clock: ManualClock) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        await bees.broker.inner.send("jobs", [jobs.draft(Work())])
        before = bees.broker.calls.total()
        await bees.advance(3600)
        calls = bees.broker.calls.total() - before
        bees.broker.come_back()
        await bees.advance(10)

        assert 1800 <= calls <= 5500  # one a second on average; at worst, chance willing
        assert 1 == len(bees.runs)


@pytest.mark.parametrize(
    "error", [bee.BrokerClosed("closed"), bee.BrokerMisconfigured("set something")]
)
async def test_what_waiting_cannot_mend_ends_the_worker_which_says_so(error: bee.BeeError) -> None:
    async with bee.connect("memory://") as store:
        broker = FaultyBroker(store)
        broker.fail("lease", error)
        worker = bee.Worker(broker, "jobs", Work, nothing)

        with pytest.raises(type(error)):
            await worker.run()


async def test_jobs_that_end_while_the_broker_is_away_are_settled_when_it_is_back() -> None:
    go_on = asyncio.Event()

    async def handle(job: Work) -> None:
        await go_on.wait()

    async with at_work(handle) as (bees, jobs):
        await send_all(jobs)
        await bees.clock.settle()
        bees.broker.go_down(bee.BrokerUnavailable("away"))
        go_on.set()
        await bees.advance(LEASE - 5)
        bees.broker.come_back()
        await bees.advance(10)

        assert Counter(IDS) == Counter(bees.runs)
        assert 0 == await live(bees)


async def test_a_send_that_fails_inside_a_handler_is_the_handlers_failure() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, policy=bee.Policy(on_error=bee.Repeat(3)))

    @jobs.handler
    async def handle(job: Work) -> None:
        if job.what == "parent":
            await jobs.send(Work("child"), id="child")

    async with under_test(hive) as bees:
        await jobs.send(Work("parent"), id="parent")
        bees.broker.fail("send", bee.BrokerUnavailable("away"))
        bees.broker.fail("send", bee.BrokerFull("full"), when="after")
        await bees.advance(100)

        assert Counter({"parent": 3, "child": 2}) == Counter(bees.runs)


async def test_a_send_whose_answer_is_lost_inside_a_handler_is_repeated_by_the_queue() -> None:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work)

    @jobs.handler
    async def handle(job: Work) -> None:
        if job.what == "parent":
            await jobs.send(Work("child"), id="child")

    async with under_test(hive) as bees:
        await jobs.send(Work("parent"), id="parent")
        bees.broker.lose_answer("send")
        bees.broker.lose_answer("send")
        await bees.drain()

        assert Counter({"parent": 1, "child": 1}) == Counter(bees.runs)


async def test_a_lease_whose_answer_was_lost_comes_back_when_it_has_run_out() -> None:
    async with at_work(nothing) as (bees, jobs):
        bees.broker.lose_answer("lease")
        await send_all(jobs)
        await bees.advance(LEASE - 1)

        assert [] == bees.runs

        await bees.advance(2)

        assert Counter(IDS) == Counter(bees.runs)


@pytest.mark.parametrize("error", [bee.BrokerClosed("closed"), bee.BrokerMisconfigured("no")])
async def test_trouble_that_will_not_pass_ends_the_worker_with_its_reason(
    error: bee.BrokerError, bee_clock: ManualClock
) -> None:
    go_on = asyncio.Event()
    begun: list[str] = []

    async def handle(job: Work) -> None:
        begun.append(job.what)
        await go_on.wait()

    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(broker, "jobs", Work, handle, clock=bee_clock, observers=())
    await worker.queue.send(Work("a"))
    run = asyncio.create_task(worker.run())
    await until(lambda: begun)
    broker.fail("lease", error)
    await worker.queue.send(Work("b"))
    await bee_clock.advance(5)
    go_on.set()
    with pytest.raises(type(error)):
        await run

    stats = await broker.stats("jobs")
    assert (["a"], 1, 0) == (begun, stats.ready, stats.leased)


async def test_trouble_with_stats_is_told_and_so_is_its_end(bee_clock: ManualClock) -> None:
    events: list[bee.Event] = []
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=(events.append,))
    await worker.queue.send(Work(), delay=100)
    broker.fail("stats", bee.BrokerUnavailable("away"), times=3)
    run = asyncio.create_task(worker.run(until_empty=True))
    await until(lambda: broker.calls["stats"])
    await bee_clock.advance(50)
    broker.fail("stats", bee.BrokerUnavailable("away"), times=3)
    await bee_clock.advance(100)
    await run

    trouble = [event.verb for event in events if isinstance(event, BrokerTrouble)]
    over = [event.verb for event in events if isinstance(event, BrokerRecovered)]
    assert (["stats"] * 2, ["stats"] * 2) == (trouble, over)


async def test_trouble_with_stats_does_not_end_a_hive_that_runs_until_it_is_empty() -> None:
    class Fickle(FaultyBroker):
        """Fails every second look."""

        looks = 0

        def clone(self) -> Fickle:
            return Fickle(self.inner.clone(), self._script)

        async def stats(self, queue: str) -> bee.QueueStats:
            Fickle.looks += 1
            if Fickle.looks == 2:
                raise bee.BrokerUnavailable("away")
            return await super().stats(queue)

    hive = bee.Hive(broker=Fickle(MemoryBroker()))
    jobs = hive.queue("jobs", Work)
    jobs.handler(nothing)
    async with hive:
        await jobs.send(Work())
        await hive.run(until_empty=True)

        assert 0 == (await hive.broker.stats("jobs")).live


async def test_stopping_is_not_taken_for_a_recovery(bee_clock: ManualClock) -> None:
    async with at_work(nothing, clock=bee_clock, poll=1) as (bees, _):
        bees.broker.fail("wait", bee.BrokerUnavailable("away"))
        await bees.advance(1)
        gate = bees.broker.gate("wait")
        await bees.advance(1)
        assert gate.reached.is_set()
        await bees.stop()

        assert Counter({"wait": 1}) == verbs(bees, BrokerTrouble)
        assert Counter() == verbs(bees, BrokerRecovered)


@pytest.mark.parametrize("good", [True, False])
async def test_a_worker_that_cannot_settle_does_not_take_jobs_without_end(
    good: bool, bee_clock: ManualClock
) -> None:
    async with at_work(nothing, clock=bee_clock, concurrency=5) as (bees, jobs):
        bees.broker.fail("settle", bee.BrokerUnavailable("away"), times=10_000)
        drafts = [
            jobs.draft(Work()) if good else bee.Draft(f"bad-{number}", b"not a job")
            for number in range(2000)
        ]
        await jobs.send_many(drafts)
        await bees.advance(20)
        held = (await bees.broker.inner.stats("jobs")).leased
        await bees.crash()

        assert held <= 505


@pytest.mark.parametrize("verb", ["lease", "settle", "wait"])
async def test_a_cancellation_that_leaks_from_the_driver_is_trouble_like_any_other(
    verb: str, bee_clock: ManualClock
) -> None:
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=())
    leak: Exception = asyncio.CancelledError()  # type: ignore[assignment]
    broker.fail(verb, leak)
    run = asyncio.create_task(worker.run())
    await until(lambda: broker.calls["lease"])
    for number in range(5):
        await worker.queue.send(Work(), id=str(number))
        await bee_clock.advance(LEASE)
    left, ended = (await broker.stats("jobs")).live, run.done()
    worker.kill()
    await asyncio.gather(run, return_exceptions=True)

    assert (0, False) == (left, ended)


async def test_a_wait_that_leaks_cancellations_does_not_make_the_worker_spin(
    bee_clock: ManualClock,
) -> None:
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        leak: Exception = asyncio.CancelledError()  # type: ignore[assignment]
        bees.broker.fail("wait", leak, times=200)
        await jobs.send(Work())
        await bees.clock.settle()

        assert bees.broker.calls["wait"] <= 3


class Deaf(MemoryBroker):
    """Takes a cancellation for the end of the wait."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        try:
            await super().wait(queue, timeout=60.0)
        except asyncio.CancelledError:
            return


async def test_a_wait_that_keeps_a_cancellation_to_itself_does_not_keep_the_worker() -> None:
    began = asyncio.Event()

    async def handle(job: Work) -> None:
        began.set()
        await asyncio.sleep(3600)

    broker = Deaf()
    worker = bee.Worker(broker, "jobs", Work, handle, observers=(), cancel_grace=0.1)
    await worker.queue.send(Work())
    running = asyncio.create_task(worker.run())
    await began.wait()
    await asyncio.sleep(0.05)  # it waits for more

    worker.kill()
    done, _ = await asyncio.wait({running}, timeout=5)

    assert {running} == done


async def test_a_worker_that_waits_can_be_stopped_from_another_thread() -> None:
    worker = bee.Worker(MemoryBroker(), "jobs", Work, nothing, observers=(), poll=60)
    running = asyncio.create_task(worker.run())
    await until(lambda: worker._fetcher._waiting is not None)

    await asyncio.to_thread(worker.stop)
    await asyncio.wait_for(running, 5)


class Abrupt(MemoryBroker):
    """Fails at once when it is asked for a lease, a few times, and not when that is awaited."""

    failures = 3

    def lease(self, queue: str, **options: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise bee.BrokerUnavailable("away")
        return super().lease(queue, **options)


async def test_a_broker_that_fails_before_it_is_awaited_does_not_end_its_worker() -> None:
    async with Abrupt() as broker:
        worker = bee.Worker(broker, "q", Work, nothing, observers=())
        async with worker.working():
            await bee.Queue(broker, "q", Work).send(Work())
            await until(lambda: worker.health().settled == 1)
