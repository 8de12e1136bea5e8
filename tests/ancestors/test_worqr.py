"""The faults of worqr."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import bee_core as bee
from bee_core.events import AttemptLost
from bee_core.testing import ManualClock, running
from bee_core.testing.conformance import Harness
from bee_core.testing.conformance.steps import (
    SHORT,
    clones,
    draft,
    end,
    ids,
    lapse,
    lapse_one,
    lease,
    lease_one,
    send,
)
from bee_memory import MemoryBroker
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.ancestors.support import drain
from tests.servers import PgServer, RedisServer
from tests.worker.support import (
    LEASE,
    STEADY,
    Work,
    at_work,
    begin,
    heard,
    hive_for,
    live,
    nothing,
    reasons,
)
from tests.worker.test_lost_lease import steal
from tests.worker.test_strategies import fail, hang


async def test_WQ_B01_one_that_stops_gives_back_only_its_own(h: Harness) -> None:
    await send(h, "a", "b")
    a = await lease_one(h, holder="first")
    b = await lease_one(h, holder="second")
    await end(h, a, bee.Reschedule(front=True))

    assert ["a"] == ids(await lease(h))
    assert await end(h, b)


async def test_WQ_B02_what_is_given_back_comes_first(h: Harness) -> None:
    await send(h, "1", "2", "3")
    await end(h, await lease_one(h), bee.Reschedule(front=True))

    assert ["1", "2", "3"] == ids(await lease(h))


async def test_WQ_B03_whatever_was_accepted_is_delivered_though_others_were_not(
    h: Harness,
) -> None:
    async with clones(h, 2) as brokers:

        async def produce(name: str, broker: bee.Broker) -> list[str]:
            made = []
            for number in range(60):
                for id in (f"{name}-{number}", f"shared-{number % 7}"):
                    (sent,) = await broker.send(h.queue, [draft(h, id)])
                    made += [id] if sent is bee.Sent.CREATED else []
            return made

        made = await asyncio.gather(*(produce(str(n), b) for n, b in enumerate(brokers)))

    assert Counter(id for ids_ in made for id in ids_) == Counter(await drain(h))


async def test_WQ_B04_an_id_is_of_its_queue_and_free_when_its_message_is_gone(h: Harness) -> None:
    created = [bee.Sent.CREATED]
    assert created == await send(h, "a")
    assert created == await h.broker.send(h.other_queue, [draft(h, "a")])

    await h.broker.cancel(h.queue, ["a"], to=bee.Delete())
    assert created == await send(h, "a")
    await h.broker.purge(h.queue)
    assert created == await send(h, "a")


async def test_WQ_B05_an_idle_worker_starts_what_a_dead_one_held() -> None:
    hive, jobs = hive_for(nothing)
    async with running(hive, start=False) as bees:
        await jobs.send(Work(), id="a")
        await bees.broker.inner.lease("jobs", limit=1, duration=LEASE, holder="dead")
        await begin(bees)
        await bees.advance(LEASE - 1)
        assert [] == bees.runs

        await bees.advance(2)
        assert ["a"] == bees.runs


async def test_WQ_B06_a_running_job_that_is_cancelled_is_over() -> None:
    async with at_work(hang, policy=bee.Policy(timeout=None)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await jobs.cancel("a")
        await bees.advance(10 * LEASE)

        assert ["a"] == bees.runs
        assert (0, Counter(cancelled=1)) == (await live(bees), await reasons(bees))


@pytest.fixture(params=["valkey", "pg"])
async def named(request: pytest.FixtureRequest) -> AsyncIterator[bee.Store]:
    """A store in a place with an underscore in its name."""
    if request.param == "valkey":
        valkey: RedisServer = request.getfixturevalue("valkey")
        async with RedisBroker(valkey.url, prefix="my_app") as broker:
            yield broker
    else:
        pg: PgServer = request.getfixturevalue("pg")
        async with PgBroker(pg.database(), schema="my_app", migrate=True) as broker:
            yield broker


async def test_WQ_B07_odd_names_lead_nobody_astray(named: bee.Store) -> None:
    async with named.clone() as other:
        await named.wait("a-b_c", timeout=0.01)
        waiting = asyncio.create_task(named.wait("a-b_c", timeout=10))
        await asyncio.sleep(0.2)
        await other.send("a-b_c", [bee.Draft("1", b"")])
        await asyncio.wait_for(waiting, 5)

    assert ["a-b_c"] == list(await named.queues())
    with pytest.raises(bee.InvalidName):
        await named.send("a:b_c", [bee.Draft("1", b"")])
    await named.drop("a-b_c")


class Deaf(MemoryBroker):
    """Whoever waits hears nothing, and comes back when his time is over."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        await self._memory.clock.sleep(timeout)


async def test_WQ_B08_who_hears_nothing_still_looks(bee_clock: ManualClock) -> None:
    done = asyncio.Event()

    async def handle(job: Work) -> None:
        done.set()

    async with Deaf(clock=bee_clock) as broker:
        worker = bee.Worker(broker, "jobs", Work, handle, poll=5, clock=bee_clock)
        async with worker.working():
            await worker.started()
            await bee_clock.settle()
            await bee.Queue(broker, "jobs", Work).send(Work())
            await bee_clock.advance(4)
            assert not done.is_set()
            await bee_clock.advance(2)
            assert done.is_set()


async def test_WQ_B09_whoever_dies_while_others_take_over_loses_nothing(h: Harness) -> None:
    wanted = {str(number) for number in range(40)}
    await send(h, *wanted)
    async with clones(h, 4) as brokers:
        for _ in range(3):
            await asyncio.gather(
                *(b.lease(h.queue, limit=10, duration=SHORT * h.unit, holder="w") for b in brokers)
            )
            await h.advance(2 * SHORT)

    assert wanted == set(await drain(h))


async def test_WQ_B10_a_late_end_has_no_effect_at_all(h: Harness) -> None:
    await send(h, draft(h, "parent", after=1000, awaits=1), draft(h, "a", reports_to="parent"))
    late = await lapse_one(h)
    held = await lease_one(h)

    assert not await end(h, late, then=[draft(h, "next")], result=b"late", keep=1000)

    assert [] == list(await h.broker.reports(h.queue, "parent"))
    assert {} == dict(await h.broker.results(h.queue, ["a"]))
    assert await h.broker.get(h.queue, "next") is None
    assert [bee.Sent.KEPT] == await send(h, "a")
    assert await end(h, held)


async def test_WQ_B11_a_handler_that_blocks_the_loop_keeps_its_lease() -> None:
    runs: list[int] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        runs.append(delivery.attempt)
        time.sleep(1.2)  # noqa: ASYNC251

    async with MemoryBroker() as broker:
        await bee.Queue(broker, "jobs", Work).send(Work())
        worker = bee.Worker(broker, "jobs", Work, handle, lease=0.4)
        await worker.run(until_empty=True)

    assert [1] == runs


async def test_WQ_B12_a_lost_lease_is_told_and_the_worker_goes_on_and_leaves_nothing() -> None:
    before = set(threading.enumerate())
    async with at_work(hang, policy=bee.Policy(timeout=None), concurrency=1) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await steal(bees, "a")
        await jobs.send(Work(), id="b")
        await bees.advance(LEASE)

        assert ["a"] == [event.id for event in heard(bees, AttemptLost)]
        assert ["a", "b"] == bees.runs
    assert set() == set(threading.enumerate()) - before


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "postgresql://u@127.0.0.1:1/d"])
async def test_WQ_B13_a_store_that_is_not_there_is_an_error_in_time(url: str) -> None:
    async with asyncio.timeout(20), bee.connect(url) as broker:
        with pytest.raises(bee.BrokerUnavailable):
            await broker.lease("q", limit=1, duration=1, holder="w")


async def test_WQ_B14_repeats_have_a_limit_a_delay_and_a_history() -> None:
    policy = bee.Policy(on_error=bee.Repeat(2, backoff=STEADY))
    async with at_work(fail, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1000)

        stored = await bees.broker.inner.get("jobs", "a")
        assert stored is not None
        assert ["failed"] * 3 == [episode.reason for episode in stored.history]
    pages = (Path(__file__).parents[2] / "docs" / "explanation").glob("*.md")
    assert any("at least once" in page.read_text("utf-8").lower() for page in pages)


async def test_WQ_B01_one_that_dies_gives_back_only_its_own(h: Harness) -> None:
    await send(h, "a", "b")
    (mine,) = await lease(h, 1, holder="alive")
    await lapse(h)

    assert ["b"] == ids(await lease(h))
    assert await end(h, mine)
