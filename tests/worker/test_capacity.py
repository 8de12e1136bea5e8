"""Queues of one hive that share a capacity: whose jobs run when there is not room for all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import bee_core as bee
from bee_core.events import HandlerStuck, WorkerStopped
from bee_core.testing import HiveUnderTest, ManualClock
from bee_memory import MemoryBroker

from .support import Work, heard, nothing, under_test, until


class Yard:
    """Handlers that stand still until they are let go, queue by queue."""

    def __init__(self) -> None:
        self.running: dict[str, list[asyncio.Event]] = {}
        self.done: Counter[str] = Counter()
        self.most = 0

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        gate = asyncio.Event()
        gates = self.running.setdefault(delivery.queue, [])
        gates.append(gate)
        self.most = max(self.most, sum(self.now.values()))
        try:
            await gate.wait()
            self.done[delivery.queue] += 1
        finally:
            gates.remove(gate)

    @property
    def now(self) -> Mapping[str, int]:
        """How many of each queue run."""
        return {queue: len(gates) for queue, gates in self.running.items() if gates}

    async def let_go(self, bees: HiveUnderTest, queue: str, jobs: int = 1) -> None:
        for gate in self.running[queue][:jobs]:
            gate.set()
        await bees.clock.settle()


def hive_of(
    yard: Yard, capacity: int | bee.Auto | None, **queues: dict[str, Any]
) -> tuple[bee.Hive, list[bee.HiveQueue[Work]]]:
    hive = bee.Hive("memory://", capacity=capacity, concurrency=100)
    found = [hive.queue(name, Work, **options) for name, options in queues.items()]
    for queue in found:
        queue.handler(yard)
    return hive, found


async def send(queue: bee.HiveQueue[Work], jobs: int) -> None:
    await queue.send_many([Work(number=number) for number in range(jobs)])


async def test_all_queues_together_run_no_more_jobs_than_there_is_capacity() -> None:
    yard = Yard()
    hive, queues = hive_of(yard, 5, one={}, two={}, three={})
    async with under_test(hive) as bees:
        for queue in queues:
            await send(queue, 20)
        await bees.clock.settle()
        while yard.now:
            await yard.let_go(bees, max(yard.now))

    assert {"one": 20, "two": 20, "three": 20} == yard.done
    assert 5 == yard.most


async def test_a_queue_alone_has_all_of_it_but_no_more_than_its_concurrency() -> None:
    yard = Yard()
    hive, (one, two) = hive_of(yard, 8, one={}, two={"concurrency": 3})
    async with under_test(hive) as bees:
        await send(one, 20)
        await bees.clock.settle()
        assert {"one": 8} == yard.now

        await yard.let_go(bees, "one", 8)
        await yard.let_go(bees, "one", 8)
        await yard.let_go(bees, "one", 8)
        await send(two, 20)
        await bees.clock.settle()
        assert {"two": 3} == yard.now


async def test_no_more_is_leased_than_there_is_capacity_for() -> None:
    yard = Yard()
    hive, queues = hive_of(yard, 5, one={}, two={})
    async with under_test(hive) as bees:
        for queue in queues:
            await send(queue, 20)
        await bees.clock.settle()

        stats = [await bees.broker.inner.stats(name) for name in ("one", "two")]
        assert (35, 5) == (sum(s.ready for s in stats), sum(s.leased for s in stats))


async def test_the_higher_precedence_has_every_slot_that_gets_free() -> None:
    yard = Yard()
    hive, (low, high) = hive_of(yard, 4, low={}, high={"precedence": 1})
    async with under_test(hive) as bees:
        await send(low, 20)
        await bees.clock.settle()
        await send(high, 6)
        await bees.clock.settle()
        seen = [yard.now]
        for _ in range(4):
            await yard.let_go(bees, "low")
            seen.append(yard.now)
        for _ in range(4):
            await yard.let_go(bees, "high")
            seen.append(yard.now)

    assert [
        {"low": 4},
        {"low": 3, "high": 1},
        {"low": 2, "high": 2},
        {"low": 1, "high": 3},
        {"high": 4},
        {"high": 4},
        {"high": 4},
        {"high": 3, "low": 1},
        {"high": 2, "low": 2},
    ] == seen


async def test_a_share_is_there_at_once_under_a_flood_of_a_higher_queue() -> None:
    yard = Yard()
    hive, (flood, small) = hive_of(yard, 6, flood={"precedence": 9}, small={"share": 2})
    async with under_test(hive) as bees:
        await send(flood, 1000)
        await bees.clock.settle()
        assert {"flood": 4} == yard.now

        await send(small, 5)
        await bees.clock.settle()
        assert {"flood": 4, "small": 2} == yard.now

        await yard.let_go(bees, "small")
        assert {"flood": 4, "small": 2} == yard.now

        await yard.let_go(bees, "flood")
        assert {"flood": 4, "small": 2} == yard.now


async def test_equal_queues_that_are_flooded_have_equal_parts() -> None:
    yard = Yard()
    hive, queues = hive_of(yard, 6, one={}, two={}, three={})
    async with under_test(hive) as bees:
        for queue in queues:
            await send(queue, 200)
        await bees.clock.settle()
        for _ in range(40):
            for name in ("one", "two", "three"):
                if name in yard.now:
                    await yard.let_go(bees, name)

        assert {"one": 2, "two": 2, "three": 2} == yard.now


async def test_a_large_job_takes_its_size() -> None:
    yard = Yard()
    hive, (large, small) = hive_of(yard, 10, large={"size": 4, "precedence": 1}, small={})
    async with under_test(hive) as bees:
        await send(large, 5)
        await send(small, 50)
        await bees.clock.settle()

        assert {"large": 2} == yard.now, "two units are kept for the next large one"

        await yard.let_go(bees, "large", 2)
        await yard.let_go(bees, "large", 2)
        assert {"large": 1, "small": 6} == yard.now


async def test_large_jobs_get_their_turn_among_small_ones() -> None:
    yard = Yard()
    hive, (large, small) = hive_of(yard, 4, large={"size": 4}, small={})
    async with under_test(hive) as bees:
        await send(small, 60)
        await bees.clock.settle()
        await send(large, 5)
        await bees.clock.settle()
        for _ in range(12):
            await yard.let_go(bees, next(iter(yard.now)))

        assert yard.done["large"] >= 1


async def test_an_idle_queue_costs_the_others_nothing(bee_clock: ManualClock) -> None:
    yard = Yard()
    hive, (busy, _) = hive_of(yard, 4, busy={}, idle={"precedence": 5, "size": 4})
    async with under_test(hive, clock=bee_clock, poll=1.0) as bees:
        await send(busy, 100)
        for _ in range(10):
            await bees.advance(1.5)  # the idle queue looks, now and then
            assert {"busy": 4} == yard.now
            await yard.let_go(bees, "busy")
            assert {"busy": 4} == yard.now


@pytest.mark.parametrize("size", [1, 4])
async def test_work_whose_wake_up_was_missed_is_found_by_looking(
    size: int, bee_clock: ManualClock
) -> None:
    yard = Yard()
    hive, (busy, late) = hive_of(yard, 4, busy={}, late={"precedence": 5, "size": size})
    async with under_test(hive, clock=bee_clock, poll=1.0) as bees:
        await send(busy, 100)
        await bees.clock.settle()
        await bees.broker.inner.pause("late")
        await send(late, 1)
        await bees.advance(5)
        assert {"busy": 4} == yard.now

        await bees.broker.inner.resume("late")
        await bees.advance(5)
        await yard.let_go(bees, "busy", size)

        assert {"late": 1} == {name: jobs for name, jobs in yard.now.items() if name == "late"}


async def test_everything_is_done_until_empty() -> None:
    hive = bee.Hive("memory://", capacity=3)
    done: Counter[str] = Counter()
    queues = {
        "high": hive.queue("high", Work, precedence=3),
        "large": hive.queue("large", Work, size=3),
        "small": hive.queue("small", Work),
    }

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        await asyncio.sleep(0)
        done[delivery.queue] += 1
        if job.what == "again":
            await queues["high"].send(Work())

    async with hive:
        for queue in queues.values():
            queue.handler(handle)
            await queue.send_many([Work("again" if n % 10 == 0 else "") for n in range(50)])
        async with asyncio.timeout(30):
            await hive.run(until_empty=True)

    assert {"high": 65, "large": 50, "small": 50} == done


async def test_delayed_jobs_are_waited_for_until_empty(bee_clock: ManualClock) -> None:
    yard = Yard()
    hive, (one, two) = hive_of(yard, 1, one={}, two={"precedence": 1})
    with hive.substitute(MemoryBroker(clock=bee_clock), clock=bee_clock, observers=()):
        async with hive:
            await send(one, 3)
            await two.send(Work(), delay=60)
            run = asyncio.create_task(hive.run(until_empty=True))
            for _ in range(500):
                await bee_clock.advance(1)
                for gates in yard.running.values():
                    for gate in gates:
                        gate.set()
                if run.done():
                    break
                await asyncio.sleep(0.001)
            await run

    assert {"one": 3, "two": 1} == yard.done


async def test_stopping_gives_back_what_runs_and_leaves_the_capacity_free(
    bee_clock: ManualClock,
) -> None:
    yard = Yard()
    hive, (one, two) = hive_of(yard, 4, one={"share": 1}, two={})
    async with under_test(hive, clock=bee_clock) as bees:
        await send(one, 10)
        await send(two, 10)
        await bees.clock.settle()
        await bees.stop()
        assert 2 == len(heard(bees, WorkerStopped))
        assert [10, 10] == [(await bees.broker.inner.stats(q.name)).ready for q in (one, two)]

        await bees.start()
        await bees.clock.settle()
        await until(lambda: sum(yard.now.values()) == 4)


async def test_after_a_crash_the_whole_capacity_is_there(bee_clock: ManualClock) -> None:
    yard = Yard()
    hive, (one, _) = hive_of(yard, 4, one={}, two={"share": 1})
    async with under_test(hive, clock=bee_clock) as bees:
        await send(one, 10)
        await bees.clock.settle()
        await bees.crash()
        await bees.start()
        await until(lambda: yard.now == {"one": 3})


async def test_stuck_handlers_do_not_hold_the_capacity(bee_clock: ManualClock) -> None:
    let_go = asyncio.Event()

    async def deaf(job: Work) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    done: list[int] = []

    async def work(job: Work) -> None:
        done.append(job.number)

    hive = bee.Hive("memory://", capacity=2)
    policy = bee.Policy(timeout=10, on_timeout=bee.Archive())
    bad = hive.queue("bad", Work, policy=policy, precedence=1)
    good = hive.queue("good", Work)
    bad.handler(deaf)
    good.handler(work)
    async with under_test(hive, clock=bee_clock) as bees:
        await send(bad, 2)
        await bees.clock.settle()
        await send(good, 5)
        await bees.advance(15)
        assert [] == done

        await bees.advance(10)
        assert 2 == len(heard(bees, HandlerStuck))
        assert [0, 1, 2, 3, 4] == done
        let_go.set()


async def test_a_broker_in_trouble_holds_no_slots_for_the_queue_that_cannot_lease(
    bee_clock: ManualClock,
) -> None:
    yard = Yard()
    hive, (one, two) = hive_of(yard, 2, one={"precedence": 1}, two={})
    async with under_test(hive, clock=bee_clock, poll=1.0) as bees:
        await send(two, 10)
        await send(one, 10)
        await bees.clock.settle()
        bees.broker.fail("lease", bee.BrokerUnavailable("gone"), times=3)
        for _ in range(20):
            await bees.advance(5)
            for name in list(yard.now):
                await yard.let_go(bees, name, 2)

    assert {"one": 10, "two": 10} == yard.done


async def test_jobs_that_cannot_be_read_give_their_slots_back() -> None:
    hive = bee.Hive("memory://", capacity=2)
    one, two = hive.queue("one", Work), hive.queue("two", Work)
    one.handler(nothing)
    two.handler(nothing)
    async with under_test(hive) as bees:
        await bees.broker.send("one", [bee.Draft(f"bad-{n}", b"?") for n in range(5)])
        await send(two, 5)
        await bees.drain()

        assert 5 == len(await bees.archived("one"))
        assert 5 == len([id for id in bees.runs if not id.startswith("bad")])


async def test_ticks_of_a_schedule_take_slots_and_give_them_back(bee_clock: ManualClock) -> None:
    hive = bee.Hive("memory://", capacity=1)
    one, two = hive.queue("one", Work), hive.queue("two", Work)
    one.handler(nothing)
    two.handler(nothing)
    one.schedule("often", Work(), every=10)
    async with under_test(hive, clock=bee_clock) as bees:
        await bees.advance(101)
        await send(two, 3)
        await bees.drain()

        assert 13 == len(bees.runs)


async def test_shares_that_cannot_be_are_refused_when_the_hive_is_to_work() -> None:
    yard = Yard()
    hive, _ = hive_of(yard, 4, one={"share": 3}, two={"share": 2})

    async with hive:
        with pytest.raises(bee.InvalidOption, match="add up to 5"):
            await hive.run()


async def test_queues_that_nobody_works_on_have_no_share() -> None:
    yard = Yard()
    hive, (one, *_) = hive_of(yard, 4, one={"share": 3})
    hive.queue("elsewhere", Work, share=4)
    async with under_test(hive) as bees:
        await send(one, 10)
        await bees.clock.settle()

        assert {"one": 4} == yard.now
