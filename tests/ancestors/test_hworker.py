"""The faults of hworker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

import bee_core as bee
from bee_core.testing.conformance import Harness
from bee_core.testing.conformance.steps import (
    SHORT,
    end,
    ids,
    lapse_one,
    lease,
    lease_one,
    send,
)
from bee_redis import RedisBroker
from tests.ancestors.support import EVERY_WAY
from tests.servers import RedisServer
from tests.worker.support import (
    LEASE,
    STEADY,
    Work,
    at_work,
    live,
    nothing,
    outcomes,
    reasons,
)
from tests.worker.test_strategies import fail


async def test_HW_B01_looking_into_an_empty_queue_leaves_nothing_there(h: Harness) -> None:
    for _ in range(20):
        assert [] == await lease(h)

    stats = await h.broker.stats(h.queue)
    assert (0, {}, 0) == (stats.live, dict(stats.archived), stats.created)


async def test_HW_B02_the_body_of_a_job_ends_with_its_worker() -> None:
    seen: list[str] = []

    async def handle(job: Work) -> None:
        seen.append("begun")
        await bees.clock.sleep(1)
        seen.append("an effect")

    async with at_work(handle) as (bees, jobs):
        await jobs.send(Work())
        await bees.clock.settle()
        await bees.crash()
        await bees.advance(10)

        assert ["begun"] == seen


async def test_HW_B03_a_late_end_does_not_take_the_message_from_its_new_holder(h: Harness) -> None:
    for number, way in enumerate(EVERY_WAY):
        id = str(number)
        await send(h, id)
        late = await lapse_one(h)
        (held,) = await lease(h, units=SHORT)
        assert not await end(h, late, way)
        assert [] == await lease(h)

        await h.advance(2 * SHORT)  # the new holder dies, too
        again = await lease_one(h)
        assert (id, 3) == (again.receipt.id, again.counters.deliveries)
        assert again.receipt.token > held.receipt.token
        await end(h, again)


async def test_HW_B04_jobs_that_hang_do_not_take_the_worker_with_them() -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        if job.what == "hang":
            await asyncio.Event().wait()
        done.append(job.number)

    policy = bee.Policy(timeout=0.5, on_timeout=bee.Archive())
    async with at_work(handle, policy=policy, concurrency=3) as (bees, jobs):
        await jobs.send(Work("hang"))
        await jobs.send_many([Work(number=number) for number in range(20)])
        await bees.advance(1)

        assert list(range(20)) == sorted(done)
        assert (0, Counter(timed_out=1)) == (await live(bees), await reasons(bees))


async def test_HW_B05_a_job_that_always_asks_for_another_run_has_a_limit() -> None:
    async def handle(job: Work) -> None:
        raise bee.Retry("again")

    policy = bee.Policy(on_error=bee.Repeat(3, backoff=STEADY))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1000)

        assert ["a"] * 4 == bees.runs


async def test_HW_B06_two_jobs_that_are_alike_are_two_jobs(h: Harness) -> None:
    queue = bee.Queue(h.broker, h.queue, Work)
    await queue.send(Work("same"))
    await queue.send(Work("same"))

    assert 2 == len(await lease(h))


async def test_HW_B06_a_large_job_is_stored_once_also_while_it_runs(valkey: RedisServer) -> None:
    def used() -> int:
        return int(valkey.ask("INFO", "memory")["used_memory"])

    size, count = 1_000_000, 20
    async with RedisBroker(valkey.url, prefix="large") as broker:
        before = used()
        for number in range(count):
            await broker.send("q", [bee.Draft(str(number), bytes(size))])
        leases = await broker.lease("q", limit=count, duration=60, holder="w")
        grown = used() - before
        await broker.drop("q")

    assert count == len(leases)
    assert size * count < grown < 1.3 * size * count


async def test_HW_B07_the_archive_says_what_was_wrong() -> None:
    async with at_work(fail, policy=bee.Policy(on_error=bee.Archive())) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        stored = await bees.broker.inner.get("jobs", "a")
        assert stored is not None
        assert stored.note is not None
        assert "failed" == stored.note.reason
        assert "ValueError: no" in stored.note.detail
        assert 1 == stored.counters.errors
        assert stored.holder
        assert stored.archived_at


@pytest.mark.parametrize("skew", [3600.0, -3600.0])
async def test_HW_B08_a_worker_whose_clock_is_wrong_neither_loses_leases_nor_keeps_them(
    h: Harness, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = time.time
    monkeypatch.setattr(time, "time", lambda: genuine() + skew)
    await send(h, "a")
    await lease(h, units=SHORT)
    monkeypatch.undo()

    assert [] == await lease(h)

    await h.advance(2 * SHORT)
    assert ["a"] == ids(await lease(h))


@pytest.mark.parametrize("verb", ["lease", "settle", "extend", "wait"])
async def test_HW_B09_whatever_the_store_raises_the_worker_goes_on(verb: str) -> None:
    async def handle(job: Work) -> None:
        await bees.clock.sleep(LEASE)

    async with at_work(handle, policy=bee.Policy(timeout=None)) as (bees, jobs):
        bees.broker.fail(verb, OSError("reset by peer"), times=3)
        await jobs.send(Work(), id="a")
        await bees.advance(20 * LEASE)
        await jobs.send(Work(), id="b")
        await bees.advance(20 * LEASE)

        assert ["Succeeded"] * 2 == outcomes(bees)
        assert 0 == await live(bees)


async def test_HW_B10_a_damaged_record_holds_up_nobody_else(valkey: RedisServer) -> None:
    async with RedisBroker(valkey.url, prefix="damaged") as broker:
        await broker.send("q", [bee.Draft(id, b"") for id in ("a", "b")])
        await broker.lease("q", limit=2, duration=0.05, holder="w")
        assert 0 == valkey.ask("HSET", "damaged:{q}:meta", "a", "?")  # it was there
        await asyncio.sleep(0.1)
        leases = await broker.lease("q", limit=2, duration=60, holder="w")
        await broker.drop("q")

    assert {"a", "b"} == set(ids(leases))


async def test_HW_B11_an_idle_worker_asks_rarely_and_starts_at_once() -> None:
    async with at_work(nothing, poll=5) as (bees, jobs):
        before = bees.broker.calls.total()
        await bees.advance(60)
        assert bees.broker.calls.total() - before < 3 * 60

        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        assert ["a"] == bees.runs


async def test_HW_B12_a_job_of_three_leases_runs_once() -> None:
    async def handle(job: Work) -> None:
        await bees.clock.sleep(3 * LEASE)

    async with at_work(handle, policy=bee.Policy(timeout=None)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(4 * LEASE)

        assert (["a"], ["Succeeded"]) == (list(bees.runs), outcomes(bees))


async def test_HW_B13_two_that_cannot_be_read_and_are_alike_are_kept_apart_and_pruned() -> None:
    async with at_work(nothing) as (bees, _):
        await bees.broker.send("jobs", [bee.Draft(id, b"?") for id in ("a", "b")])
        await bees.drain()
        assert Counter(malformed=2) == await reasons(bees)

        assert 1 == await bees.broker.prune("jobs", keep=1)
