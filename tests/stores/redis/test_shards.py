"""A queue on several nodes of a real cluster: where its messages are, and what is refused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

import bee_core as bee
from bee_core import connect
from bee_core.broker import Store
from bee_core.disposition import Archive
from bee_core.errors import (
    BrokerMisconfigured,
    BrokerUnavailable,
    InvalidName,
    InvalidOption,
    OutcomeUnknown,
)
from bee_core.ids import new_id
from bee_core.message import Draft, Rate, Reject, Sent, Settlement, Throttle
from bee_core.moving import move
from bee_core.stored import State
from bee_redis import RedisBroker, keys
from bee_redis.resp import pack
from bee_redis.sharded.parts import part_names, part_of
from tests.chaos import storm
from tests.servers import RedisCluster, RedisServer, valkey_binary

from .support import (
    PASSING,
    QUEUE,
    again,
    at_most,
    becomes,
    calls,
    drained,
    ids,
    lease,
    lease_one,
    send,
    settle,
)

SHARDS = 8


@pytest.fixture
async def spread(cluster: RedisCluster) -> AsyncIterator[RedisBroker]:
    """A broker with a prefix of its own, so that no other test's queues are of another number."""
    async with RedisBroker(cluster.url, shards=SHARDS, prefix=new_id()) as broker:
        yield broker


@pytest.fixture
def frail() -> Iterator[RedisCluster]:
    """A cluster that goes on without one of its nodes."""
    servers = RedisCluster(valkey_binary())
    for node in servers.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    yield servers
    servers.stop()


def some_in(part: int, count: int, shards: int = SHARDS) -> list[str]:
    """So many ids that are in a part."""
    found = (f"m{n}" for n in range(100_000))
    return [id for id in found if part_of(id, shards) == part][:count]


def parts_at(cluster: RedisCluster, prefix: str, queue: str = "q") -> list[set[int]]:
    """Of each node the parts of which it holds messages."""
    names = [f"{prefix}:shards{SHARDS}:{{{n}}}:msg" for n in part_names(queue, SHARDS)]
    return [
        {part for part, name in enumerate(names) if name.encode() in node.ask("KEYS", "*:msg")}
        for node in cluster.nodes
    ]


# Where a message is.


def test_the_part_of_an_id_never_changes() -> None:
    assert [3, 4, 5, 0] == [part_of(id, 8) for id in ("a", "order-17", "🐝", "x y")]
    assert ("mail-00y2", "mail-01ih") == part_names("mail", 8)[:2]


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 16, 64])
def test_the_parts_of_a_queue_are_spread_evenly_over_the_slots(shards: int) -> None:
    from redis.crc import key_slot

    for queue in ("a", "mail", "x" * 42):
        slots = [key_slot(f"{{{name}}}".encode()) for name in part_names(queue, shards)]
        assert list(range(shards)) == [slot * shards // 16384 for slot in slots]


def test_what_bee_names_after_a_message_is_in_its_part() -> None:
    group = new_id()
    for shards in (8, 64):
        assert 1 == len({part_of(id, shards) for id in (group, f"{group}/1", f"{group}/002")})
        assert 1 == len({part_of(f"{{t}}{n}", shards) for n in range(50)} | {part_of("t", shards)})
        job = "nightly@2026-11-17T03:00:00Z"
        assert part_of("bee-schedule:nightly", shards) == part_of(job, shards)


async def test_messages_are_spread_over_all_nodes(
    cluster: RedisCluster, spread: RedisBroker
) -> None:
    wanted = [f"m{n}" for n in range(400)]
    assert [Sent.CREATED] * 400 == await send(spread, *wanted)
    assert [Sent.KEPT] * 400 == await send(spread, *wanted)

    parts = parts_at(cluster, spread._prefix)
    assert [2, 3, 3] == sorted(map(len, parts))
    assert set(range(SHARDS)) == set.union(*parts)
    stats = await spread.stats("q")
    assert (400, 400) == (stats.ready, stats.created)
    assert ["q"] == await spread.queues()
    assert sorted(wanted) == sorted(await drained(spread))


async def test_the_order_holds_within_a_part(spread: RedisBroker) -> None:
    first, second = some_in(0, 10), some_in(1, 10)
    await send(spread, *(id for pair in zip(first, second, strict=True) for id in pair))
    urgent = some_in(0, 11)[-1]
    await send(spread, urgent, priority=5)

    came = await drained(spread)
    assert [urgent, *first] == [id for id in came if id in (urgent, *first)]
    assert second == [id for id in came if id in second]


async def test_no_part_starves_where_another_is_always_full(spread: RedisBroker) -> None:
    await send(spread, *some_in(0, 500))
    (rare,) = await lease_other(spread, some_in(3, 1)[0])

    assert rare <= SHARDS


async def lease_other(broker: Store, id: str) -> list[int]:
    """After how many small leases that one comes."""
    await send(broker, id)
    for count in range(1, 100):
        if id in ids(await lease(broker, 2)):
            return [count]
    raise AssertionError(f"{id} never came")


async def test_a_lease_is_filled_from_several_parts_and_never_overfilled(
    spread: RedisBroker,
) -> None:
    await send(spread, *(f"m{n}" for n in range(100)))

    assert 60 == len(await lease(spread, 60))
    assert 40 == len(await lease(spread, 60))
    assert [] == await lease(spread, 60)


# Workers.


async def test_a_worker_drains_a_spread_queue(cluster: RedisCluster, spread: RedisBroker) -> None:
    runs: Counter[int] = Counter()

    async def handle(job: int) -> None:
        runs[job] += 1

    await bee.Queue(spread, "q", int).send_many(range(1000))
    async with spread.clone() as other:
        for broker in (spread, other):
            await bee.Worker(broker, "q", int, handle, concurrency=50).run(until_empty=True)

    assert dict.fromkeys(range(1000), 1) == runs
    assert 0 == (await spread.stats("q")).live


async def test_a_message_in_any_part_wakes_an_idle_worker_at_once(spread: RedisBroker) -> None:
    late: list[float] = []

    async def handle(job: float) -> None:
        late.append(time.time() - job)

    async with spread.clone() as idle:
        worker = bee.Worker(idle, "q", float, handle, poll=30.0)
        async with worker.working():
            for part in range(SHARDS):
                await asyncio.sleep(0.1)
                queue = bee.Queue(spread, "q", float)
                await queue.send(time.time(), id=some_in(part, 1)[0])
                await becomes(lambda: len(late) > part, "nobody was woken", 10)  # noqa: B023
            await asyncio.sleep(0.1)
            await queue.send(time.time() + 0.5, id=some_in(5, 2)[1], delay=0.5)
            await becomes(lambda: len(late) > SHARDS, "what was delayed never came", 10)

    assert max(late) < 1.0


async def test_two_wake_ups_wake_two_workers(spread: RedisBroker) -> None:
    async def fetch(broker: Store) -> list[str]:
        while not (found := await lease(broker, 1)):
            await broker.wait("q", timeout=30)
        return ids(found)

    waiting = [asyncio.create_task(fetch(spread)) for _ in range(2)]
    await asyncio.sleep(0.3)
    await send(spread, "a", "b")

    async with asyncio.timeout(5):
        found = await asyncio.gather(*waiting)
    assert ["a", "b"] == sorted(id for some in found for id in some)


async def test_who_is_rung_finds_it_though_another_ones_time_is_over_meanwhile(
    spread: RedisBroker, cluster: RedisCluster
) -> None:
    async with RedisBroker(cluster.url, prefix=spread._prefix, shards=SHARDS) as sender:
        for number in range(SHARDS):
            assert [] == await lease(spread)
            waiting = asyncio.create_task(spread.wait("q", timeout=10))
            await asyncio.sleep(0.05)
            (id,) = some_in(number, 1)
            await send(sender, id)
            await waiting
            await spread.wait("q", timeout=0.001)

            (held,) = await lease(spread)

            assert id == held.receipt.id
            await settle(spread, [held])


async def test_what_is_due_in_two_parts_at_once_is_taken_by_two(
    spread: RedisBroker, cluster: RedisCluster
) -> None:
    """By the one who knows of both and has room for one, and by another who knew of one."""
    async with (
        RedisBroker(cluster.url, prefix=spread._prefix, shards=SHARDS) as other,
        RedisBroker(cluster.url, prefix=spread._prefix, shards=SHARDS) as sender,
    ):
        for one in (spread, other):
            assert [] == await lease(one)
        first = asyncio.create_task(fetch(spread))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(fetch(other))
        await asyncio.sleep(0.2)
        (a,), (b,) = some_in(0, 1), some_in(1, 1)
        await send(sender, a, delay=0.6)
        await asyncio.sleep(0.2)
        await send(sender, b, delay=0.4)
        await asyncio.sleep(0.2)
        time.sleep(0.6)  # noqa: ASYNC251 (when the loop turns again, both are due)

        taken = await asyncio.wait_for(asyncio.gather(first, second), 5)

        assert {a, b} == set(taken)


async def fetch(broker: RedisBroker) -> str:
    """As a worker with one slot does."""
    while True:
        await broker.wait("q", timeout=20)
        for held in await lease(broker, 1):
            return held.receipt.id


async def test_an_idle_worker_asks_little(server: RedisServer) -> None:
    async with RedisBroker(server.url, shards=16) as broker:
        worker = bee.Worker(broker, "q", int, lambda job: None)
        async with worker.working():
            await asyncio.sleep(1.5)
            before = calls(server, "evalsha", "blpop")
            await asyncio.sleep(4)
            after = calls(server, "evalsha", "blpop")

    asked = {name: after[name] - before[name] for name in after}
    assert asked["evalsha"] <= 5 * 5  # a quarter of the parts at each poll, and the announcement
    assert asked["blpop"] <= 16


def test_kill_9_loses_nothing(cluster: RedisCluster) -> None:
    url = f"{cluster.url}?shards={SHARDS}&prefix={new_id()}"

    plan = storm.Plan(jobs=1500, seconds=3, kills=10, processes=3)
    report = storm.run("cluster", plan, url)

    assert [] == report.faults


# What belongs together.


async def test_what_follows_is_sent_in_the_same_step_or_refused_in_the_handler(
    spread: RedisBroker,
) -> None:
    refused: list[str] = []
    ran: list[str] = []

    async def handle(job: str, delivery: bee.Delivery[str]) -> None:
        ran.append(job)
        if job == "first":
            assert part_of(delivery.then("second"), SHARDS) == part_of(delivery.id, SHARDS)
            with pytest.raises(InvalidOption, match="not on the shard of") as error:
                for n in range(50):
                    delivery.then("never", id=f"own-{n}")
                    delivery.follow_ups = delivery.follow_ups[:1]
            refused.append(str(error.value))

    queue = bee.Queue(spread, "q", str)
    await queue.send("first")
    await bee.Worker(spread, "q", str, handle).run(until_empty=True)

    assert ["first", "second"] == ran
    assert 1 == len(refused)


async def test_a_settlement_with_a_draft_elsewhere_changes_nothing(spread: RedisBroker) -> None:
    here, there = some_in(0, 1)[0], some_in(1, 1)[0]
    await send(spread, here)
    held = await lease_one(spread)

    with pytest.raises(InvalidOption, match="not on the shard of"):
        await spread.settle("q", [Settlement(held.receipt, Archive(), then=[Draft(there, b"")])])

    assert State.LEASED is (await get(spread, here)).state
    assert None is await spread.get("q", there)


async def get(broker: Store, id: str) -> bee.Stored:
    found = await broker.get("q", id)
    assert found is not None
    return found


async def test_a_group_gathers(spread: RedisBroker) -> None:
    gathered: list[list[int]] = []

    async def handle(job: int, delivery: bee.Delivery[int]) -> int:
        if job < 0:
            gathered.append(sorted([one.value async for one in delivery.reports(type=int)]))
        elif job == 100:
            delivery.group([4, 5], then=-2)
        return job

    queue = bee.Queue(spread, "q", int)
    await queue.group([1, 2, 3], then=-1)
    await queue.group([7, queue.draft(8, id="{tag}8")], then=-3, id="{tag}")
    await queue.send(100)
    await bee.Worker(spread, "q", int, handle).run(until_empty=True)

    assert [[1, 2, 3], [4, 5], [7, 8]] == sorted(gathered)
    with pytest.raises(InvalidOption, match=r"one tag such as '\{report-7\}'"):
        await queue.group(range(50), then=-1, id="report-7")
    assert 0 == (await spread.stats("q")).live


async def test_the_limit_of_a_key_holds_over_all_parts(spread: RedisBroker) -> None:
    most = running = 0

    async def handle(job: int) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1

    queue = bee.Queue(spread, "q", int)
    for n in range(20):
        await queue.send(n, key="customer-7")
        await queue.send(n, key="customer-7", id=f"{{customer-7}}/{n}")
    with pytest.raises(InvalidOption, match=r"write '\{customer-7\}' in it"):
        for n in range(50):
            await queue.send(n, key="customer-7", id=f"own-{n}", delay=60)
    await spread.cancel("q", [f"own-{n}" for n in range(50)], to=bee.Delete())
    await bee.Worker(spread, "q", int, handle, concurrency=20).run(until_empty=True)

    assert 1 == most


async def test_a_rate_of_the_whole_queue_ends_a_worker_at_once(spread: RedisBroker) -> None:
    worker = bee.Worker(
        spread, "q", int, lambda job: None, throttle=Throttle(per_key=1, rate=Rate(5))
    )

    with at_most(5), pytest.raises(BrokerMisconfigured, match="cannot keep a rate"):
        await worker.run()


async def test_rejects_in_several_parts_are_refused(spread: RedisBroker) -> None:
    drafts = [Draft(f"m{n}", b"", if_taken=Reject()) for n in range(20)]

    with pytest.raises(InvalidOption, match=r"Reject\(\)"):
        await spread.send("q", drafts)

    assert [Sent.CREATED] == await spread.send("q", drafts[:1])
    with pytest.raises(bee.IdTaken, match="queue 'q' already holds m0"):
        await spread.send("q", drafts[:1])
    assert 1 == (await spread.stats("q")).live


async def test_a_schedule_is_kept(cluster: RedisCluster) -> None:
    ran: list[str] = []
    hive = bee.Hive(f"{cluster.url}?shards={SHARDS}&prefix={new_id()}")
    queue = hive.queue("q", str)
    queue.schedule("tick", "tick", every=1.0)

    @queue.handler
    async def handle(job: str) -> None:
        ran.append(job)

    async with asyncio.timeout(20), hive, hive.working():
        await becomes(lambda: len(ran) >= 2, "the schedule sends nothing", 15)


# Over how many shards.


async def test_who_says_another_number_is_refused_and_changes_nothing(
    cluster: RedisCluster, spread: RedisBroker
) -> None:
    await send(spread, "a")
    prefix = spread._prefix

    async with (
        RedisBroker(cluster.url, prefix=prefix, shards=4) as four,
        RedisBroker(cluster.url, prefix=prefix) as none,
    ):
        for broker, says in ((four, "shards=4"), (none, "no shards")):
            for verb in (
                send(broker, "b"),
                lease(broker),
                broker.stats("q"),
                broker.get("q", "a"),
                broker.pause("q"),
                broker.drop("q"),
                broker.purge("q"),
                broker.cancel("q", ["a"], to=bee.Delete()),
                broker.results("q", ["a"]),
                broker.announce("q", "w", about="", duration=10),
                broker.workers("q"),
                broker.queues(),
            ):
                with pytest.raises(BrokerMisconfigured, match=rf"has shards=8, .* says {says}"):
                    await verb

    assert ["a"] == await drained(spread)


async def test_a_queue_without_shards_is_not_taken_over(cluster: RedisCluster) -> None:
    prefix = new_id()
    async with (
        RedisBroker(cluster.url, prefix=prefix) as none,
        RedisBroker(cluster.url, prefix=prefix, shards=4) as four,
    ):
        await send(none, "a")

        for verb in (send(four, "b"), lease(four), four.queues()):
            with pytest.raises(BrokerMisconfigured, match=r"has no shards, .* says shards=4"):
                await verb

        assert ["a"] == await drained(none)
        await none.drop("q")
        await send(four, "b")
        assert ["b"] == await drained(four)


async def test_a_dropped_queue_may_be_spread_otherwise(
    cluster: RedisCluster, spread: RedisBroker
) -> None:
    await send(spread, *(f"m{n}" for n in range(50)))
    await spread.pause("q")
    await spread.drop("q")

    assert [] == await spread.queues()
    async with RedisBroker(cluster.url, prefix=spread._prefix, shards=4) as four:
        await send(four, "a")
        assert ["a"] == await drained(four)
        await four.drop("q")
    left = [key for node in cluster.nodes for key in node.ask("KEYS", f"{spread._prefix}*")]
    assert [] == left


async def test_who_sends_to_a_queue_that_another_has_dropped_lists_it_again(
    spread: RedisBroker,
) -> None:
    await send(spread, "a")
    async with spread.clone() as other:
        await other.drop("q")
        await send(spread, "a")

        assert ["q"] == await other.queues()
        assert ["a"] == await drained(other)


@pytest.mark.parametrize("shards", [None, 2, 4])
async def test_a_queue_moves_to_another_number_under_another_prefix(
    cluster: RedisCluster, spread: RedisBroker, shards: int | None
) -> None:
    async with RedisBroker(cluster.url, prefix=new_id(), shards=shards) as source:
        await send(source, *(f"m{n}" for n in range(300)))
        await send(source, *(f"later{n}" for n in range(20)), delay=60)
        await settle(source, await lease(source, 10), Archive())
        token = (await source.stats("q")).token

        await move(source, spread, ["q"])

        assert 0 == (await source.stats("q")).live
        stats = await spread.stats("q")
        assert (290, 20, 10) == (stats.ready, stats.delayed, sum(stats.archived.values()))
        await spread.resume("q")
        assert min(held.receipt.token for held in await lease(spread, 100)) > token


# Looking at it.


async def test_pages_show_every_message_once(spread: RedisBroker) -> None:
    wanted = {f"m{n}" for n in range(150)}
    await send(spread, *wanted)

    for limit in (1, 3, 7, 20, 1000):
        found, after = list[str](), None
        while True:
            page = await spread.scan("q", State.READY, after=after, limit=limit)
            assert len(page.items) <= limit
            found += ids(page.items)
            if (after := page.after) is None:
                break
        assert len(found) == 150
        assert wanted == set(found)
    with pytest.raises(InvalidOption, match="after must come from a page"):
        await spread.scan("q", State.READY, after="[[null], 0]")


async def test_workers_are_counted_once(spread: RedisBroker) -> None:
    await send(spread, *(f"m{n}" for n in range(50)))
    await lease(spread, 50)
    await spread.announce("q", "w", about="here", duration=60)
    await spread.announce("q", "idle", about="", duration=60)

    assert [("idle", 0, ""), ("w", 50, "here")] == [
        (one.name, one.leases, one.about) for one in await spread.workers("q")
    ]


async def test_it_says_what_it_is(cluster: RedisCluster) -> None:
    async with connect(f"{cluster.url}?shards=16") as broker:
        assert isinstance(broker, RedisBroker)
        assert "16 shards" in repr(broker)
        assert "each queue on 16 shards" == (await broker.describe()).state
    for wrong in (0, 65, True):
        with pytest.raises(InvalidOption, match="shards must be"):
            RedisBroker(cluster.url, shards=wrong)
    async with RedisBroker(cluster.url, shards=2) as broker:
        with pytest.raises(InvalidName, match="at most 42"):
            await broker.stats("x" * 43)


# Trouble.


async def test_without_one_node_the_other_parts_go_on(frail: RedisCluster) -> None:
    async with RedisBroker(frail.url, shards=SHARDS, deadline=1) as broker:
        await send(broker, *(f"m{n}" for n in range(400)))
        lost = parts_at(frail, "bee")[2]
        lives = [n for n in range(400) if part_of(f"m{n}", SHARDS) not in lost]
        frail.nodes[2].kill()

        came: list[str] = []
        end = time.monotonic() + 30
        while len(came) < len(lives) and time.monotonic() < end:
            try:
                held = await lease(broker, 20)
                assert not await settle(broker, held)
                came += ids(held)
            except PASSING:
                await asyncio.sleep(0.05)

        assert sorted(f"m{n}" for n in lives) == sorted(came)
        alive = next(part for part in range(SHARDS) if part not in lost)
        assert [Sent.CREATED] == await again(lambda: send(broker, some_in(alive, 1)[0]))
        with pytest.raises((BrokerUnavailable, OutcomeUnknown)):
            await send(broker, some_in(min(lost), 1)[0])
        with pytest.raises(OutcomeUnknown, match="in part"):
            await send(broker, *some_in(alive, 2), *some_in(min(lost), 2))
        with pytest.raises((BrokerUnavailable, OutcomeUnknown)):
            await broker.stats("q")


async def test_a_node_that_is_silent_does_not_hold_up_the_others(frail: RedisCluster) -> None:
    async with RedisBroker(frail.url, shards=SHARDS, deadline=1) as broker:
        await send(broker, *(f"m{n}" for n in range(400)))
        silent = parts_at(frail, "bee")[1]
        lives = {f"m{n}" for n in range(400) if part_of(f"m{n}", SHARDS) not in silent}
        came: list[str] = []
        with frail.nodes[1].frozen():
            end = time.monotonic() + 4
            while len(came) < len(lives) and time.monotonic() < end:
                try:
                    held = await lease(broker, 5)
                    await settle(broker, held)
                    came += ids(held)
                except PASSING:
                    await asyncio.sleep(0.01)
            assert lives == set(came)

        came += await drained(broker, patience=30)
    assert {f"m{n}" for n in range(400)} == set(came)


async def test_what_is_leased_reaches_its_holder_though_another_part_is_of_no_use(
    spread: RedisBroker,
) -> None:
    await send(spread, *(str(number) for number in range(40)))
    bad = keys.keys(spread._parts._prefix, part_names(QUEUE, SHARDS)[3])[0]  # type: ignore[attr-defined]
    link = await spread._parts._open()  # type: ignore[attr-defined]
    until = asyncio.get_running_loop().time() + 5.0
    await link.call(bad, pack(b"DEL", bad), until=until)
    await link.call(bad, pack(b"SET", bad, b"not bee's"), until=until)

    held, refused = 0, 0
    for _ in range(2 * SHARDS):
        try:
            held += len(await spread.lease(QUEUE, limit=100, duration=30.0, holder="me"))
        except BrokerMisconfigured:
            refused += 1

    parts = [name for n, name in enumerate(part_names(QUEUE, SHARDS)) if n != 3]
    leased = [(await spread._parts.stats(name)).leased for name in parts]  # type: ignore[attr-defined]
    assert sum(leased) == held > 0 < refused


async def test_a_part_is_looked_at_again_though_its_probe_was_cancelled(
    spread: RedisBroker,
) -> None:
    spread._avoid("part", BrokerUnavailable("away"))  # type: ignore[attr-defined]
    probe = spread._avoided["part"].probe  # type: ignore[attr-defined]
    probe.cancel()
    await asyncio.wait({probe})
    await asyncio.sleep(0)

    assert not spread._avoided  # type: ignore[attr-defined]


async def test_a_wait_of_which_one_part_is_cancelled_leaves_none_behind(
    spread: RedisBroker,
) -> None:
    await spread.stats(QUEUE)
    for _ in range(5):  # whichever it is
        waiting = asyncio.create_task(spread.wait(QUEUE, timeout=5.0))
        await asyncio.sleep(0.1)
        listening = [task for task in asyncio.all_tasks() if task.get_name() == "bee:wait"]
        assert len(listening) == SHARDS

        listening[0].cancel()
        await asyncio.wait({waiting})
        await asyncio.sleep(0.05)

        assert all(task.done() for task in listening)
