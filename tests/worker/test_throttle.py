"""Keys and rates, as workers keep them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import bee_core as bee
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import LEASE, STEADY, Jobs, Work, at_work, under_test


class Gauge:
    """A handler that knows how many of each key run, and at most ran."""

    def __init__(self, clock: ManualClock, seconds: float = 1.0) -> None:
        self.now: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.order: list[str] = []
        self.starts: list[float] = []
        self._clock = clock
        self._zero = clock.now()
        self._seconds = seconds

    async def __call__(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        key = delivery.key
        self.order.append(delivery.id)
        self.starts.append(self._clock.now() - self._zero)
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        try:
            await self._clock.sleep(self._seconds)
        finally:
            self.now[key] -= 1


def throttled(
    handler: Any, throttle: bee.Throttle, policy: bee.Policy = bee.Policy()
) -> tuple[bee.Hive, Jobs]:
    hive = bee.Hive("memory://")
    jobs = hive.queue("jobs", Work, throttle=throttle, concurrency=100, policy=policy)
    jobs.handlers.handle_all(handler)
    return hive, jobs


async def test_jobs_of_one_key_run_one_after_the_other_in_their_order(
    bee_clock: ManualClock,
) -> None:
    gauge = Gauge(bee_clock)
    async with at_work(gauge, clock=bee_clock, concurrency=50) as (bees, jobs):
        for number in range(5):
            for key in ("ada", "bob"):
                await jobs.send(Work(), id=f"{key}-{number}", key=key)
        await bees.advance(0)
        assert Counter({"ada": 1, "bob": 1}) == +gauge.now
        await bees.advance(10)

        assert Counter({"ada": 1, "bob": 1}) == gauge.most
        assert [f"ada-{n}" for n in range(5)] == [id for id in gauge.order if "ada" in id]


async def test_jobs_without_a_key_are_not_held_back(bee_clock: ManualClock) -> None:
    gauge = Gauge(bee_clock)
    async with at_work(gauge, clock=bee_clock, concurrency=50) as (bees, jobs):
        await jobs.send_many([Work() for _ in range(20)])
        await bees.advance(0)

        assert 20 == gauge.now[None]


async def test_so_many_of_a_key_at_once_as_the_queue_says(bee_clock: ManualClock) -> None:
    gauge = Gauge(bee_clock)
    hive, jobs = throttled(gauge, bee.Throttle(per_key=3))
    async with under_test(hive, clock=bee_clock) as bees:
        for number in range(10):
            await jobs.send(Work(), id=str(number), key="ada")
        await bees.advance(10)

        assert Counter({"ada": 3}) == gauge.most
        assert 10 == len(gauge.order)


async def test_a_rate_holds_for_all_workers_together(bee_clock: ManualClock) -> None:
    gauge = Gauge(bee_clock, seconds=0.1)
    hive, jobs = throttled(gauge, bee.Throttle(rate=bee.Rate(10, per=60)))
    async with under_test(hive, clock=bee_clock) as bees:
        other = bee.Worker(
            bees.broker,
            "jobs",
            Work,
            gauge,
            clock=bee_clock,
            poll=86_400,
            observers=(),
            throttle=bee.Throttle(rate=bee.Rate(10, per=60)),
        )
        async with other.working():
            await other.started()
            await jobs.send_many([Work() for _ in range(25)])
            await bees.advance(59)
            assert 10 == len(gauge.starts)
            await bees.advance(120)

    minutes = Counter(int(start // 60) for start in gauge.starts)
    assert {0: 10, 1: 10, 2: 5} == minutes


async def test_a_rate_for_each_key_holds_back_nobody_else(bee_clock: ManualClock) -> None:
    gauge = Gauge(bee_clock, seconds=0.1)
    hive, jobs = throttled(gauge, bee.Throttle(per_key=None, key_rate=bee.Rate(2, per=60)))
    async with under_test(hive, clock=bee_clock) as bees:
        for number in range(6):
            await jobs.send(Work(), id=f"ada-{number}", key="ada")
        await jobs.send(Work(), id="bob", key="bob")
        await jobs.send(Work(), id="nobody")
        await bees.advance(1)
        assert {"ada-0", "ada-1", "bob", "nobody"} == set(gauge.order)
        await bees.advance(130)

        assert 8 == len(gauge.order)


async def test_one_that_is_repeated_lets_others_of_its_key_pass(bee_clock: ManualClock) -> None:
    order: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        order.append(delivery.id)
        if delivery.id == "first" and delivery.attempt == 1:
            raise ConnectionError

    policy = bee.Policy(on_error=bee.Repeat(3), backoff=STEADY)
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="first", key="ada")
        await jobs.send(Work(), id="second", key="ada")
        await bees.advance(10)

        assert ["first", "second", "first"] == order


async def test_a_key_is_held_by_a_worker_that_crashed_until_its_lease_runs_out(
    bee_clock: ManualClock,
) -> None:
    gauge = Gauge(bee_clock, seconds=5)
    async with at_work(gauge, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="first", key="ada")
        await jobs.send(Work(), id="second", key="ada")
        await bees.advance(0)
        await bees.crash()
        await bees.start()
        await bees.advance(LEASE - 1)
        assert ["first"] == gauge.order
        await bees.advance(20)

        assert ["first", "first", "second"] == gauge.order


async def test_until_empty_waits_for_what_is_held_back() -> None:
    order: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        order.append(delivery.id)
        await asyncio.sleep(0.001)

    hive, jobs = throttled(handle, bee.Throttle(rate=bee.Rate(5, per=0.05)))
    async with hive:
        for number in range(12):
            await jobs.send(Work(), id=f"{number:02}", key=str(number % 2))
        await hive.run(until_empty=True)

    assert [f"{number:02}" for number in range(12)] == sorted(order)


async def test_a_follow_up_has_a_key_of_its_own(bee_clock: ManualClock) -> None:
    keys: list[str | None] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        keys.append(delivery.key)
        if delivery.key == "ada":
            delivery.then(Work(), key="bob")

    async with at_work(handle, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), key="ada")
        await bees.drain()

        assert ["ada", "bob"] == keys


@pytest.mark.parametrize("wrong", [None, 5, bee.Rate(5), {"per_key": 1}])
def test_a_throttle_is_a_throttle(wrong: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="Throttle"):
        bee.Hive("memory://").queue("jobs", Work, throttle=wrong)
    with pytest.raises(bee.InvalidOption, match="Throttle"):
        bee.Worker(MemoryBroker(), "jobs", Work, Gauge(ManualClock()), throttle=wrong)


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\nb", 5])
async def test_a_key_is_text_as_an_id_is(wrong: Any) -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", Work)

    with pytest.raises(bee.InvalidName, match="key"):
        await queue.send(Work(), key=wrong)
