"""The faults of haskell-bee."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise

import psycopg
import pytest

import bee_core as bee
from bee_core.events import BrokerTrouble, Event
from bee_core.testing import ManualClock, running
from bee_core.testing.conformance import BrokerConformance, Harness
from bee_core.testing.conformance.steps import (
    SHORT,
    clones,
    draft,
    end,
    extend,
    ids,
    lapse_one,
    lease,
    lease_one,
    send,
    update,
)
from tests.ancestors.support import EVERY_WAY, drain, drained_by_many, once
from tests.conformance import test_memory, test_pg, test_redis
from tests.servers import PgServer
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
    outcomes,
    reasons,
    under_test,
)
from tests.worker.test_groups import Maths, Sum, squares
from tests.worker.test_strategies import fail, hang


async def test_HB_B01_a_repeat_is_one_call_and_never_a_delete_and_a_send() -> None:
    policy = bee.Policy(on_error=bee.Repeat(None, backoff=STEADY))
    async with at_work(fail, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()

        assert (1, 1) == (bees.broker.calls["send"], bees.broker.calls["settle"])
        assert 1 == await live(bees)


async def test_HB_B02_a_repeated_child_keeps_its_id_and_its_group_is_gathered_once() -> None:
    failures = ["once"]

    async def square(job: bee.Job, delivery: bee.Delivery[bee.Job]) -> int:
        if delivery.id == "g/3" and failures:
            failures.pop()
            raise ValueError
        return 1

    policy = bee.Policy(on_error=bee.Repeat(3, backoff=STEADY))
    maths = Maths(policy, square=square)
    async with under_test(maths.hive) as bees:
        group = await maths.jobs.group(squares(1, 2, 3, 4, 5), then=Sum(), id="g")
        await bees.advance(60)

        assert [5] == maths.sums
        assert [(id, True) for id in group.children] == maths.seen[0]


async def test_HB_B03_what_is_discarded_when_interrupted_is_gone_for_good() -> None:
    policy = bee.Policy(timeout=1, on_interrupt=bee.Delete())
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()
        await bees.stop()
        await begin(bees)
        await bees.advance(10 * LEASE)

        assert ["a"] == bees.runs
        assert (0, Counter()) == (await live(bees), await reasons(bees))


async def test_HB_B04_what_a_crashed_worker_held_comes_back(h: Harness) -> None:
    await send(h, "a")
    await lapse_one(h)

    again = await lease_one(h)

    assert ("a", 2) == (again.receipt.id, again.counters.deliveries)


async def test_HB_B05_a_delay_is_kept(h: Harness) -> None:
    await send(h, draft(h, "a", after=SHORT))

    assert [] == await lease(h)

    await h.advance(2 * SHORT)
    assert ["a"] == ids(await lease(h))


async def test_HB_B06_a_queue_is_no_stack(h: Harness) -> None:
    wanted = [str(number) for number in range(100)]
    for id in wanted:
        await send(h, id)

    assert wanted == await drain(h)


async def test_HB_B07_a_message_that_is_hidden_is_hidden_from_readers(h: Harness) -> None:
    await send(h, "a")
    await update(h, "a", after=1000)

    assert [] == await lease(h)


async def test_HB_B08_what_cannot_be_read_is_put_aside_and_holds_up_nobody() -> None:
    async with at_work(nothing, concurrency=1) as (bees, jobs):
        await bees.broker.send("jobs", [bee.Draft("bad", b"\xff{"), bee.Draft("odd", b"[1]")])
        await jobs.send(Work(), id="good")
        await bees.drain()

        assert ["good"] == bees.runs
        assert (0, Counter(malformed=2)) == (await live(bees), await reasons(bees))


async def test_HB_B09_a_job_that_kills_its_worker_does_not_do_so_for_ever() -> None:
    async with at_work(hang, policy=bee.Policy(on_stall=bee.Repeat(2))) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(5):
            await bees.clock.settle()
            await bees.crash()
            await begin(bees)
            await bees.advance(LEASE)

        assert ["a"] * 3 == bees.runs
        assert Counter(stalled=1) == await reasons(bees)


async def test_HB_B10_a_claim_is_one_step_and_lasts_from_then_on() -> None:
    async with at_work(hang) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.clock.settle()

        assert 0 == bees.broker.calls["extend"]
        stored = await bees.broker.inner.get("jobs", "a")
        assert stored is not None
        assert stored.leased_at is not None
        assert stored.leased_until == stored.leased_at + LEASE


async def test_HB_B11_a_late_worker_changes_nothing(h: Harness) -> None:
    for way in EVERY_WAY:
        await send(h, "a")
        late = await lapse_one(h)
        held = await lease_one(h)

        assert not await end(h, late, way)
        assert not await extend(h, late)
        assert await end(h, held)


async def test_HB_B12_a_hook_that_raises_is_no_error_of_the_job() -> None:
    def observe(event: Event) -> None:
        raise ValueError("from a hook")

    policy = bee.Policy(timeout=5, on_error=bee.Repeat(3), on_timeout=bee.Delete())
    runs: list[str] = []

    async def handle(job: Work) -> None:
        runs.append(job.what)
        if job.what == "slow":
            await asyncio.Event().wait()

    hive, jobs = hive_for(handle, policy=policy)
    async with running(hive, observers=(observe,)) as bees:
        await jobs.send(Work("quick"))
        await jobs.send(Work("slow"))
        await bees.advance(100)

        assert Counter(quick=1, slow=1) == Counter(runs)
        assert (0, Counter()) == (await live(bees), await reasons(bees))


async def test_HB_B13_trouble_with_the_end_of_a_job_does_not_end_the_worker() -> None:
    async with at_work(nothing) as (bees, jobs):
        bees.broker.fail("settle", bee.BrokerUnavailable("for a moment"))
        await jobs.send(Work(), id="a")
        await bees.advance(10)
        await jobs.send(Work(), id="b")
        await bees.drain()

        assert (["a", "b"], 0) == (list(bees.runs), await live(bees))


async def test_HB_B14_a_server_that_is_away_is_waited_for_quietly() -> None:
    async with at_work(nothing, poll=1) as (bees, jobs):
        bees.broker.go_down(bee.BrokerUnavailable("restarting"))
        before = bees.broker.calls.total()
        await bees.advance(60)

        assert bees.broker.calls.total() - before < 200
        assert len(heard(bees, BrokerTrouble)) < 5

        bees.broker.come_back()
        await jobs.send(Work(), id="a")
        await bees.advance(5)
        assert ["a"] == bees.runs


async def test_HB_B15_a_job_that_is_over_is_not_given_back_by_a_stop() -> None:
    async with at_work(nothing) as (bees, jobs):
        gate = bees.broker.gate("settle")
        await jobs.send(Work(), id="a")
        await gate.reached.wait()
        bees.hive.stop(grace=0)
        gate.open()
        await bees.stop()

        assert ["Succeeded"] == outcomes(bees)
        assert 0 == await live(bees)


async def test_HB_B16_being_shut_down_uses_up_no_repeats() -> None:
    fails = False

    async def handle(job: Work) -> None:
        if fails:
            raise ValueError
        await asyncio.Event().wait()

    policy = bee.Policy(timeout=None, on_error=bee.Repeat(1, backoff=STEADY))
    async with at_work(handle, policy=policy) as (bees, jobs):
        await jobs.send(Work(), id="a")
        for _ in range(5):
            await bees.clock.settle()
            await bees.stop()
            await begin(bees)
        fails = True
        await bees.stop()
        await begin(bees)
        await bees.advance(100)

        assert 2 == outcomes(bees).count("Failed")


async def test_HB_B17_repeats_take_their_time(bee_clock: ManualClock) -> None:
    backoff = bee.Backoff(min=0.2, factor=2, max=10, jitter=0)
    starts: list[float] = []

    async def handle(job: Work) -> None:
        starts.append(bee_clock.now())
        raise ValueError

    policy = bee.Policy(on_error=bee.Repeat(3, backoff=backoff))
    async with at_work(handle, policy=policy, clock=bee_clock) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(10)

        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert [0.2, 0.4, 0.8] == pytest.approx(gaps, abs=0.01)


async def test_HB_B18_what_is_hidden_is_hidden_from_now_on(h: Harness) -> None:
    await send(h, "a")
    await h.advance(2 * SHORT)
    await update(h, "a", after=SHORT)

    assert [] == await lease(h)

    await h.advance(2 * SHORT)
    assert ["a"] == ids(await lease(h))


async def test_HB_B19_no_two_workers_take_one_message(h: Harness) -> None:
    assert once(400) == await drained_by_many(h, 400)


async def test_HB_B20_two_broker_objects_never_make_the_same_id(h: Harness) -> None:
    async with clones(h, 2) as brokers:
        tickets = []
        for broker in brokers:
            queue = bee.Queue(broker, h.queue, Work)
            tickets += [await queue.send(Work()) for _ in range(10)]

    assert 20 == len({ticket.id for ticket in tickets})
    assert 20 == (await h.broker.stats(h.queue)).ready


async def test_HB_B21_of_a_queue_that_is_dropped_nothing_is_left(h: Harness) -> None:
    await send(h, "held", "archived", "ready", draft(h, "delayed", after=1000))
    held, archived = await lease(h, 2)
    await end(h, archived, bee.Archive())
    await h.broker.drop(h.queue)

    stats = await h.broker.stats(h.queue)
    assert (0, {}) == (stats.live, dict(stats.archived))
    assert h.queue not in await h.broker.queues()
    assert not await end(h, held)
    assert [None] * 4 == [
        await h.broker.get(h.queue, id) for id in ("held", "archived", "ready", "delayed")
    ]


@pytest.mark.parametrize(
    "body",
    [
        b'{"v":1,"job":{"type":"work"}}',
        b'{"v":1,"job":{"type":"work","what":"x","of a later version":[1]},"more":{}}',
    ],
)
def test_HB_B22_what_an_older_or_a_newer_version_has_sent_can_be_read(body: bytes) -> None:
    codec: bee.JsonCodec[Work] = bee.JsonCodec(Work)

    assert isinstance(codec.decode(body), Work)


async def test_HB_B23_a_timeout_may_be_a_part_of_a_second() -> None:
    policy = bee.Policy(timeout=0.25, on_timeout=bee.Archive())
    async with at_work(hang, policy=policy) as (bees, jobs):
        await jobs.send(Work())
        await bees.advance(0.24)
        assert [] == outcomes(bees)

        await bees.advance(0.02)
        assert ["TimedOut"] == outcomes(bees)


def test_HB_B24_every_store_is_held_to_one_suite_and_changes_none_of_its_tests() -> None:
    for kind in (test_memory.TestMemoryBroker, test_redis.OnRedis, test_pg.OnPostgres):
        assert issubclass(kind, BrokerConformance)
        assert [] == [name for name in vars(kind) if name.startswith("test_")]


async def test_HB_B25_the_name_of_a_queue_is_not_taken_for_a_message(h: Harness) -> None:
    other = f"{h.queue}-message-7"
    await send(h, "7")
    await h.broker.send(other, [bee.Draft("7", b"other")])

    assert ["7"] == await drain(h)
    assert 1 == (await h.broker.stats(other)).ready


@pytest.mark.parametrize("name", ["Foo", "a" * 48, "a:b", "{a}", "ä", "", "a b", "a\0"])
async def test_HB_B26_a_name_that_some_store_would_change_is_refused_by_all(
    h: Harness, name: str
) -> None:
    with pytest.raises(bee.InvalidName):
        await h.broker.send(name, [bee.Draft("a", b"")])


async def test_HB_B27_a_child_that_runs_twice_counts_once(h: Harness) -> None:
    children = [draft(h, id, reports_to="parent") for id in ("a", "b")]
    await send(h, draft(h, "parent", after=1000, awaits=2), *children)
    a, b = await lease(h)
    await end(h, a, result=b"1", keep=0)
    sent = await send(h, children[0])

    assert [bee.Sent.KEPT] == sent
    assert [] == await lease(h)

    await end(h, b, result=b"2", keep=0)
    assert ["parent"] == ids(await lease(h))
    assert 2 == len(await h.broker.reports(h.queue, "parent"))


async def test_HB_B28_work_changes_no_table_and_no_function(pg: PgServer) -> None:
    url = pg.database()
    catalogue = "select oid, xmin::text from pg_class union select oid, xmin::text from pg_proc"

    async def seen() -> set[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            return set(await (await connection.execute(catalogue)).fetchall())

    async with bee.connect(f"{url}&migrate=1") as broker:
        queue = bee.Queue(broker, "jobs", Work)
        await queue.send(Work())
        before = await seen()
        await queue.send_many([Work() for _ in range(100)])
        await bee.Worker(broker, "jobs", Work, nothing).run(until_empty=True)

        assert set() == await seen() - before
