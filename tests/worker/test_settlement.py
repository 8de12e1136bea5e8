"""Telling the broker how jobs ended: in batches, until it has answered, and never twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest

import bee_core as bee
from bee_core.events import AttemptLost, SettlementRefused, WorkerStarted
from bee_core.testing import FaultyBroker, ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, counted, heard, live, nothing, settled, until


class Recording(MemoryBroker):
    """Remembers every settlement it was asked for, and refuses those that `refuses` names."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.batches: list[list[bee.Settlement]] = []
        self.refused: set[str] = set()
        self.plain_too = False
        self.error: Exception = bee.InvalidInput("no such thing")

    def clone(self) -> Recording:
        twin = Recording(self._memory.clock)  # type: ignore[arg-type]
        twin._memory, twin.batches, twin.refused = self._memory, self.batches, self.refused
        twin.plain_too, twin.error = self.plain_too, self.error
        return twin

    async def settle(
        self, queue: str, settlements: Sequence[bee.Settlement]
    ) -> AbstractSet[bee.Receipt]:
        self.batches.append(list(settlements))
        for settlement in settlements:
            plain = isinstance(settlement.disposition, bee.Reschedule) and not settlement.note
            if settlement.receipt.id in self.refused and (self.plain_too or not plain):
                raise self.error
        return await super().settle(queue, settlements)


async def work_off(
    broker: FaultyBroker | Recording, clock: ManualClock, jobs: int, *, seconds: float = 1.0
) -> tuple[Counter[str], list[bee.Event]]:
    """Run that many jobs on the broker; return how often each ran, and what was heard."""
    runs: Counter[str] = Counter()
    events: list[bee.Event] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        runs[delivery.id] += 1

    worker = bee.Worker(
        broker, "jobs", Work, handle, clock=clock, observers=(events.append,), concurrency=jobs
    )
    await worker.queue.send_many(
        [worker.queue.draft(Work(), id=str(number)) for number in range(jobs)]
    )
    async with worker.working():
        await until(lambda: len(runs) == jobs)
        await clock.advance(seconds)
    return runs, events


def kinds(events: Sequence[bee.Event]) -> Counter[str]:
    names = (type(event).__name__ for event in events)
    return Counter(name for name in names if name not in ("WorkerStarted", "WorkerStopped"))


async def test_jobs_that_end_together_are_settled_together(bee_clock: ManualClock) -> None:
    broker = Recording(bee_clock)
    await work_off(broker, bee_clock, 50)

    assert 50 == sum(len(batch) for batch in broker.batches)
    assert len(broker.batches) <= 3


def loads(batch: Sequence[bee.Settlement]) -> int:
    return sum(len(one.result) + sum(len(draft.body) for draft in one.then) for one in batch)


@pytest.mark.parametrize("way", ["result", "then"])
async def test_settlements_that_carry_much_go_out_in_several_batches(
    way: str, bee_clock: ManualClock
) -> None:
    broker = Recording(bee_clock)
    hive = bee.Hive(broker=broker, concurrency=30, clock=bee_clock)
    jobs = hive.queue("jobs", Work, policy=bee.Policy(keep_result=60))

    @jobs.handler
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> str | None:
        if way == "result" or job.what:
            return None if job.what else "x" * 200_000
        delivery.then(Work(what="x" * 200_000))
        return None

    async with hive:
        await jobs.send_many(Work(number=number) for number in range(30))
        await hive.run(until_empty=True)

    assert max(len(batch) for batch in broker.batches) > 1
    assert max(loads(batch) for batch in broker.batches) <= 1024 * 1024


async def test_what_is_noted_of_many_failures_goes_out_in_several_batches(
    bee_clock: ManualClock,
) -> None:
    broker = Recording(bee_clock)
    hive = bee.Hive(broker=broker, concurrency=300, clock=bee_clock)
    jobs = hive.queue("jobs", Work, policy=bee.Policy(on_error=bee.Archive()))

    @jobs.handler
    async def handle(job: Work) -> None:
        raise ValueError("x" * 8000)

    async with hive:
        await jobs.send_many(Work(number=number) for number in range(300))
        await hive.run(until_empty=True)

    notes = [[one.note for one in batch if one.note] for batch in broker.batches]
    assert sum(len(note.detail) for some in notes for note in some) > 2 * 1024 * 1024
    assert max(sum(len(note.detail) for note in some) for some in notes) <= 1024 * 1024


async def test_a_settlement_that_carries_too_much_for_any_batch_goes_out_alone(
    bee_clock: ManualClock,
) -> None:
    broker = Recording(bee_clock)
    hive = bee.Hive(broker=broker, concurrency=3, clock=bee_clock)
    jobs = hive.queue("jobs", Work, policy=bee.Policy(keep_result=60), max_bytes=3_000_000)

    @jobs.handler
    async def handle(job: Work) -> str:
        return "x" * 2_000_000

    async with hive:
        await jobs.send_many(Work(number=number) for number in range(3))
        await hive.run(until_empty=True)

    assert [1, 1, 1] == [len(batch) for batch in broker.batches if loads(batch)]


async def test_what_ends_while_a_settlement_is_under_way_goes_out_in_the_next() -> None:
    ends = {str(number): asyncio.Event() for number in range(5)}

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await ends[delivery.id].wait()

    async with at_work(handle) as (bees, jobs):
        for id in ends:
            await jobs.send(Work(), id=id)
        await bees.clock.settle()
        gate = bees.broker.gate("settle")
        ends["0"].set()
        await gate.reached.wait()
        for end in ends.values():
            end.set()
        await bees.clock.settle()
        gate.open()
        await bees.drain()

        assert 2 == bees.broker.calls["settle"]
        assert 5 == len(settled(bees))


@pytest.mark.parametrize("times", [1, 2, 7])
async def test_an_answer_that_is_lost_settles_once_and_says_that_it_is_not_certain(
    times: int, bee_clock: ManualClock
) -> None:
    broker = FaultyBroker(MemoryBroker(clock=bee_clock))
    for _ in range(times):
        broker.lose_answer("settle")
    runs, events = await work_off(broker, bee_clock, 3, seconds=100)

    lost = [event for event in events if isinstance(event, AttemptLost)]
    assert Counter({"0": 1, "1": 1, "2": 1}) == runs
    assert {"AttemptStarted": 3, "AttemptLost": 3, "BrokerTrouble": 1, "BrokerRecovered": 1} == (
        kinds(events)
    )
    assert [False] * 3 == [event.certain for event in lost]
    assert 0 == (await broker.stats("jobs")).live


async def test_an_answer_that_is_lost_sends_what_follows_once(bee_clock: ManualClock) -> None:
    seen: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen.append(delivery.id)
        if job.what == "parent":
            delivery.then(Work("child"), id="child")

    async with at_work(handle, clock=bee_clock) as (bees, jobs):
        bees.broker.lose_answer("settle")
        await jobs.send(Work("parent"), id="parent")
        await bees.advance(100)

        assert ["parent", "child"] == seen


async def test_a_settlement_that_is_refused_harms_no_other_and_gives_its_message_back(
    bee_clock: ManualClock,
) -> None:
    broker = Recording(bee_clock)
    broker.refused.add("3")
    runs, events = await work_off(broker, bee_clock, 8)

    assert Counter({"AttemptStarted": 8, "AttemptSettled": 7, "SettlementRefused": 1}) == kinds(
        events
    )
    assert [("3", broker.error)] == [
        (event.id, event.error) for event in events if isinstance(event, SettlementRefused)
    ]
    stored = await broker.get("jobs", "3")
    assert stored is not None
    assert (bee.State.DELAYED, 1) == (stored.state, stored.counters.releases)
    assert Counter(str(number) for number in range(8)) == runs


async def test_a_message_given_back_is_tried_again(bee_clock: ManualClock) -> None:
    broker = Recording(bee_clock)
    broker.refused.add("1")
    _, events = await work_off(broker, bee_clock, 2, seconds=1)
    broker.refused.clear()
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=(events.append,))
    run = asyncio.create_task(worker.run(until_empty=True))
    await until(lambda: isinstance(events[-1], WorkerStarted))
    await bee_clock.advance(60)
    await run

    assert 0 == (await broker.stats("jobs")).live
    assert Counter({"AttemptStarted": 3, "AttemptSettled": 2, "SettlementRefused": 1}) == kinds(
        events
    )


async def test_a_message_that_cannot_even_be_given_back_comes_back_with_its_lease(
    bee_clock: ManualClock,
) -> None:
    broker = Recording(bee_clock)
    broker.refused.add("0")
    broker.plain_too = True
    runs, events = await work_off(broker, bee_clock, 1, seconds=LEASE + 1)

    assert runs["0"] >= 2
    assert [] == [event for event in events if isinstance(event, AttemptLost)]
    refusals = [event for event in events if isinstance(event, SettlementRefused)]
    assert "giving the message back failed too" in str(refusals[0].error.__notes__)


class OneByOne(Recording):
    """Refuses a batch when a part of it is done, as pages and shards of a store may."""

    async def settle(
        self, queue: str, settlements: Sequence[bee.Settlement]
    ) -> AbstractSet[bee.Receipt]:
        lost: set[bee.Receipt] = set()
        for settlement in settlements:
            lost |= await super().settle(queue, [settlement])
        return lost


async def test_what_was_settled_before_its_batch_was_refused_is_not_said_to_be_lost_for_certain(
    bee_clock: ManualClock,
) -> None:
    broker = OneByOne(bee_clock)
    broker.refused.add("3")

    runs, events = await work_off(broker, bee_clock, 5)

    assert {str(number): 1 for number in range(5)} == runs
    assert [False] * 3 == [event.certain for event in events if isinstance(event, AttemptLost)]
    assert ["3"] == [event.id for event in events if isinstance(event, SettlementRefused)]


async def test_a_settlement_is_refused_for_good_and_the_worker_goes_on() -> None:
    async with at_work(nothing) as (bees, jobs):
        bees.broker.fail("settle", bee.InvalidInput("no"))
        await jobs.send(Work(), id="bad")
        await bees.clock.settle()
        await jobs.send(Work(), id="good")
        await bees.clock.settle()

        assert Counter({("good", "Succeeded", "Delete"): 1}) == settled(bees)
        assert 1 == len(heard(bees, SettlementRefused))

        await bees.advance(60)

        assert ["bad", "good", "bad"] == bees.runs
        assert 0 == await live(bees)


async def test_leases_are_renewed_while_a_settlement_is_retried(bee_clock: ManualClock) -> None:
    """A job that is done is not run again because the broker would not settle for a while."""
    async with at_work(nothing, clock=bee_clock) as (bees, jobs):
        bees.broker.fail("settle", bee.BrokerUnavailable("away"), times=100)
        await jobs.send(Work(), id="a")
        await bees.advance(20 * LEASE)

        assert ["a"] == bees.runs
        assert Counter(
            {"AttemptStarted": 1, "AttemptSettled": 1, "BrokerTrouble": 1, "BrokerRecovered": 1}
        ) == counted(bees)


async def test_each_job_is_told_to_the_broker_once_when_nothing_fails(
    bee_clock: ManualClock,
) -> None:
    broker = Recording(bee_clock)
    await work_off(broker, bee_clock, 30)

    told = Counter(settlement.receipt.id for batch in broker.batches for settlement in batch)
    assert Counter(str(number) for number in range(30)) == told


async def test_a_settler_that_is_replaced_in_the_middle_of_a_batch_tells_of_each_job_once(
    bee_clock: ManualClock,
) -> None:
    store = Recording(bee_clock)
    store.refused.add("1")
    broker = FaultyBroker(store)
    events: list[bee.Event] = []
    worker = bee.Worker(broker, "jobs", Work, nothing, clock=bee_clock, observers=(events.append,))
    await worker.queue.send_many([worker.queue.draft(Work(), id=id) for id in "012"])
    gates = [broker.gate("settle") for _ in range(5)]  # all, then 0, 1, 1 given back, 2
    for gate in gates[:4]:
        gate.open()
    async with worker.working():
        await gates[4].reached.wait()
        for task in asyncio.all_tasks():
            if task.get_name() == "bee:settler":
                task.cancel()
        await bee_clock.advance(5)

    told = kinds(events)
    assert {"AttemptStarted": 3, "AttemptSettled": 2, "SettlementRefused": 1} == told
