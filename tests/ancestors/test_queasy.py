"""The faults of queasy."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

import bee_core as bee
from bee_core.events import AttemptLost
from bee_core.testing import ManualClock
from bee_core.testing.conformance import Harness
from bee_core.testing.conformance.steps import (
    LONG,
    SHORT,
    draft,
    end,
    ids,
    lapse_one,
    lease,
    lease_one,
    look,
    send,
    update,
)
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
    live,
    nothing,
    outcomes,
    reasons,
    settled,
    under_test,
)
from tests.worker.test_processes import acting
from tests.worker.test_strategies import fail, hang

RUN_AT = ("always", "never", "if_later", "if_earlier")


async def test_QY_B01_the_next_one_of_an_id_waits_until_the_first_has_ended(h: Harness) -> None:
    await send(h, "a")
    held = await lease_one(h)
    assert bee.Sent.BLOCKED is await update(h, "a")

    assert [] == await lease(h)

    await end(h, held)
    assert b"new" == (await lease_one(h)).body


@pytest.mark.parametrize("run_at", RUN_AT)
async def test_QY_B02_the_next_one_of_an_id_comes_whatever_its_rule(
    h: Harness, run_at: Any
) -> None:
    await send(h, "a")
    held = await lease_one(h)
    await update(h, "a", rule=bee.Update(run_at=run_at))
    await end(h, held)

    assert ["a"] == ids(await lease(h))


async def test_QY_B03_a_late_end_does_not_break_the_queue_for_good(h: Harness) -> None:
    await send(h, "a")
    late = await lapse_one(h)
    await lease(h, units=SHORT)
    assert not await end(h, late)
    await send(h, "b")
    assert ["b"] == ids(await lease(h))

    await h.advance(2 * SHORT)
    again = await lease_one(h)
    assert ("a", 2) == (again.receipt.id, again.counters.stalls)


async def test_QY_B04_one_slot_is_enough_for_any_number_of_jobs(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(0.02)

    async with at_work(handle, concurrency=1, clock=bee_clock) as (bees, jobs):
        await jobs.send_many([Work() for _ in range(50)])
        await bees.advance(5)

        assert 50 == outcomes(bees).count("Succeeded")


async def test_QY_B05_one_that_was_away_for_too_long_stops_and_settles_nothing() -> None:
    async with at_work(hang, policy=bee.Policy(timeout=None)) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        bees.broker.go_down(bee.BrokerUnavailable("frozen"))
        await bees.advance(LEASE)

        assert ["a"] == [event.id for event in heard(bees, AttemptLost)]
        assert 0 == bees.broker.calls["settle"]
        bees.broker.come_back()
        await bees.advance(LEASE)
        assert ["a", "a"] == bees.runs


async def test_QY_B06_first_in_first_out_whatever_the_ids(h: Harness) -> None:
    chance = random.Random(1)
    wanted = [f"{chance.random()}" for _ in range(30)]
    for id in wanted:
        await send(h, id)
    assert wanted == await drain(h)

    await send(h, draft(h, "z", after=SHORT))
    await h.advance(2 * SHORT)
    await send(h, "a")
    assert ["z", "a"] == await drain(h)


async def test_QY_B07_one_id_in_two_queues_is_two_jobs(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(0.2)

    hive = bee.Hive("memory://")
    queues = [hive.queue(name, Work) for name in ("one", "two")]
    for queue in queues:
        queue.handler(handle)
    async with under_test(hive, clock=bee_clock) as bees:
        for queue in queues:
            await queue.send(Work(), id="same")
        await bees.advance(1)

        assert Counter({("same", "Succeeded", "Delete"): 2}) == settled(bees)


async def test_QY_B08_the_higher_priority_goes_first(h: Harness) -> None:
    for number in range(9):
        await send(h, draft(h, str(number), priority=(1, 3, 2)[number % 3]))

    assert ["1", "4", "7", "2", "5", "8", "0", "3", "6"] == await drain(h)


@pytest.mark.parametrize("skew", [60.0, -60.0])
async def test_QY_B09_nobody_asks_the_clock_of_a_client(
    h: Harness, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = time.time
    await send(h, draft(h, "b", after=LONG), "a")
    monkeypatch.setattr(time, "time", lambda: genuine() + skew)

    assert ["a"] == ids(await lease(h))
    assert [] == await lease(h)


async def test_QY_B10_timeouts_and_restarts_count_for_themselves() -> None:
    policy = bee.Policy(timeout=1, on_timeout=bee.Repeat(None, backoff=STEADY))
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(2)
        await bees.advance(2)
        for _ in range(5):
            await bees.stop()
            await begin(bees)

        stored = await bees.broker.inner.get("jobs", "a")
        assert stored is not None
        assert (0, True) == (stored.counters.errors, stored.counters.timeouts > 0)
        assert stored.counters.releases > 0


async def test_QY_B11_when_a_message_is_due_is_kept_with_it(h: Harness) -> None:
    await send(h, draft(h, "a", after=SHORT))
    due = (await look(h, "a")).due_at
    await h.advance(2 * SHORT)
    held = await lease_one(h)

    assert due == (await look(h, "a")).due_at
    assert due == pytest.approx(held.sent_at + SHORT * h.unit, abs=0.01)


async def test_QY_B12_a_process_that_is_killed_costs_its_own_job_a_stall_and_no_other() -> None:
    hive, jobs = acting(bee.Policy(on_stall=bee.Repeat(1)))
    async with under_test(hive) as bees:
        await jobs.send(Work("crash by signal"), id="bad")
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert 1 == settled(bees)["bad", "Stalled", "Reschedule"]
        assert 1 == settled(bees)["good", "Succeeded", "Delete"]


async def test_QY_B13_after_any_mixture_of_ends_every_slot_is_free(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        await bee_clock.sleep(job.number)

    policy = bee.Policy(timeout=1.5, on_timeout=bee.Delete())
    async with at_work(handle, policy=policy, concurrency=3, clock=bee_clock) as (bees, jobs):
        for _ in range(20):
            await jobs.send_many([Work(number=number) for number in (0, 1, 2, 3)])
            await bees.advance(5)
        await jobs.send_many([Work(number=1) for _ in range(3)])
        await bees.clock.settle()
        assert 3 == (await bees.broker.inner.stats("jobs")).leased
        await bees.advance(1)

        assert 0 == await live(bees)


def test_QY_B14_a_rule_that_does_not_exist_is_refused() -> None:
    wrong: Any = "ifLater"

    with pytest.raises(bee.InvalidOption, match="if_later"):
        bee.Update(run_at=wrong)


async def test_QY_B15_what_has_failed_for_good_is_in_the_archive_with_its_error() -> None:
    async with at_work(fail, policy=bee.Policy(on_error=bee.Repeat(0))) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.drain()

        (archived,) = await bees.archived(jobs)
        assert archived.note is not None
        assert "ValueError: no" in archived.note.detail


async def test_QY_B16_a_retry_may_come_sooner_than_the_backoff(bee_clock: ManualClock) -> None:
    async def handle(job: Work) -> None:
        raise bee.Retry("soon", after=0.1)

    policy = bee.Policy(on_error=bee.Repeat(1), backoff=bee.Backoff(min=5, max=10))
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(0.2)

        assert ["a", "a"] == bees.runs


async def test_QY_B17_a_record_deleted_by_hand_takes_no_other_with_it(valkey: RedisServer) -> None:
    async with RedisBroker(valkey.url, prefix="by-hand") as broker:
        await broker.send("q", [bee.Draft(id, b"") for id in "abc"])
        assert 1 == valkey.ask("HDEL", "by-hand:{q}:msg", "b")

        assert ["a", "c"] == ids(await broker.lease("q", limit=9, duration=60, holder="w"))
        await broker.drop("q")


async def test_QY_B17_a_row_deleted_by_hand_takes_no_other_with_it(pg: PgServer) -> None:
    url = pg.database()
    async with PgBroker(url, migrate=True) as broker:
        await broker.send("q", [bee.Draft(id, b"") for id in "abc"])
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("delete from bee.message where id = 'b'")

        assert ["a", "c"] == ids(await broker.lease("q", limit=9, duration=60, holder="w"))


async def test_QY_B18_a_look_that_fails_is_not_the_last() -> None:
    async with at_work(nothing, poll=1) as (bees, jobs):
        bees.broker.fail("lease", bee.BrokerUnavailable("once"))
        await jobs.send(Work(), id="a")
        await bees.advance(5)

        assert (["a"], Counter()) == (list(bees.runs), await reasons(bees))


async def test_QY_B19_however_many_have_died_all_they_held_comes_back(h: Harness) -> None:
    await send(h, *(str(number) for number in range(50)))
    for number in range(50):
        await h.broker.lease(h.queue, limit=1, duration=5 * h.unit, holder=f"dead-{number}")
    await h.advance(15)

    assert 50 == len(await lease(h))


async def test_QY_B20_a_worker_that_was_closed_calls_nobody() -> None:
    async with at_work(nothing, poll=1) as (bees, jobs):
        gate = bees.broker.gate("lease", when="after")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop(grace=0)
        gate.open()
        await bees.stop()
        calls = bees.broker.calls.copy()
        await bees.advance(100)

        assert calls == bees.broker.calls
        assert ([], 1) == (list(bees.runs), await live(bees))
