"""A real cluster: slots that move while they are used, nodes that die, and nothing done twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

import bee_core as bee
from bee_core import connect
from bee_core.disposition import Archive
from bee_core.errors import BrokerClosed, BrokerUnavailable, OutcomeUnknown
from bee_core.ids import new_id
from bee_core.message import Sent
from bee_redis import RedisBroker
from bee_redis.cluster import ClusterLink
from bee_redis.keys import keys
from bee_redis.resp import pack
from tests.servers import RedisCluster, valkey_binary
from tests.servers.redis import ClusterNode

from .support import (
    PASSING,
    again,
    at_most,
    becomes,
    drained,
    ids,
    lease,
    lease_one,
    outcome,
    send,
    settle,
    waiting_at,
)


def slot_of(queue: str) -> int:
    (slot,) = {key_slot(key) for key in keys("bee", queue)}
    return slot


def holder(cluster: RedisCluster, slot: int) -> ClusterNode:
    for first, last, master, *_ in cluster.nodes[0].ask("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return next(node for node in cluster.nodes if node.port == master[1])
    raise AssertionError(f"nobody holds slot {slot}")


def fresh() -> str:
    return f"q{new_id()[-12:]}"


def begin(slot: int, source: ClusterNode, target: ClusterNode) -> None:
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)


def move(slot: int, source: ClusterNode, target: ClusterNode, number: int) -> int:
    """Move so many keys; how many were there."""
    names = source.ask("CLUSTER", "GETKEYSINSLOT", slot, number)
    if names:
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *names)
    return len(names)


def finish(cluster: RedisCluster, slot: int, target: ClusterNode) -> None:
    for node in (target, *(other for other in cluster.nodes if other is not target)):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)


def other_than(cluster: RedisCluster, node: ClusterNode) -> ClusterNode:
    return next(other for other in cluster.nodes if other is not node)


async def test_all_keys_of_a_queue_are_in_one_slot_and_queues_are_spread(
    cluster: RedisCluster,
) -> None:
    queues = [fresh() for _ in range(20)]
    async with connect(cluster.url) as broker:
        for queue in queues:
            await send(broker, "a", queue=queue)

        assert set(queues) <= set(await broker.queues())
        assert 3 == len({holder(cluster, slot_of(queue)).port for queue in queues})
        for queue in queues:
            await broker.drop(queue)


async def test_a_queue_is_moved_under_load_and_nothing_is_lost_or_run_twice(
    cluster: RedisCluster,
) -> None:
    """Key by key, there and back, while senders send and workers work."""
    queue = fresh()
    slot = slot_of(queue)
    runs: Counter[int] = Counter()
    trouble: list[object] = []
    sending = True
    sent: list[int] = []

    async def handle(job: int) -> None:
        runs[job] += 1

    async def keep_sending(broker: RedisBroker) -> None:
        jobs = bee.Queue(broker, queue, int)
        while sending:
            number = len(sent)
            sent.append(number)
            await again(lambda: jobs.send(number, id=str(number)))  # noqa: B023
            await asyncio.sleep(0.001)

    async def some_more() -> None:
        enough = len(runs) + 20
        await becomes(lambda: len(runs) >= enough, "nothing is done", 30)

    async with (
        RedisBroker(cluster.url) as one,
        RedisBroker(cluster.url) as two,
        RedisBroker(cluster.url) as sender,
    ):
        workers = [
            bee.Worker(broker, queue, int, handle, observers=[trouble.append], poll=0.1)
            for broker in (one, two)
        ]
        async with workers[0].working(), workers[1].working():
            load = [asyncio.create_task(keep_sending(sender)) for _ in range(5)]
            for _ in range(2):
                source = holder(cluster, slot)
                target = other_than(cluster, source)
                await some_more()
                begin(slot, source, target)
                await asyncio.sleep(0.04)  # now, and until all is moved, everybody has to wait
                while move(slot, source, target, 1):
                    await asyncio.sleep(0.02)
                finish(cluster, slot, target)
            await some_more()
            sending = False
            await asyncio.gather(*load)
            end = time.monotonic() + 20
            while (await again(lambda: sender.stats(queue))).live:
                assert time.monotonic() < end, "the queue was not drained"
                await asyncio.sleep(0.02)

    assert {1} == set(runs.values()), runs.most_common(3)
    assert set(sent) == set(runs)
    kinds = {type(event).__name__ for event in trouble}
    assert "AttemptLost" not in kinds
    assert "SettlementRefused" not in kinds


async def test_while_a_slot_is_on_its_way_calls_wait_and_then_say_that_nothing_was_done(
    cluster: RedisCluster,
) -> None:
    queue = fresh()
    source = holder(cluster, slot_of(queue))
    target = other_than(cluster, source)
    async with connect(cluster.url + "?deadline=0.3") as broker:
        await send(broker, "a", "b", queue=queue)
        await lease_one(broker, queue=queue)
        begin(slot_of(queue), source, target)
        move(slot_of(queue), source, target, 1)

        # Two, because one alone does without the leases, and may find all it needs where it was.
        with pytest.raises(BrokerUnavailable), at_most(2):
            await send(broker, "c", "d", queue=queue)

        while move(slot_of(queue), source, target, 10):
            pass
        waiting = asyncio.create_task(again(lambda: send(broker, "c", queue=queue)))
        await asyncio.sleep(0.02)
        finish(cluster, slot_of(queue), target)
        assert [Sent.CREATED] == await waiting
        assert ["b", "c"] == ids(await lease(broker, queue=queue))


async def test_a_slot_that_is_not_handed_over_is_unavailable_whichever_node_was_asked_last(
    cluster: RedisCluster,
) -> None:
    queue = fresh()
    source = holder(cluster, slot_of(queue))
    target = other_than(cluster, source)
    async with RedisBroker(cluster.url) as broker:
        await send(broker, "a", queue=queue)
        begin(slot_of(queue), source, target)
        while move(slot_of(queue), source, target, 10):
            pass

        ends = []
        for hundredths in range(10, 20):
            broker._deadline = hundredths / 100
            ends.append(await outcome(send(broker, "b", queue=queue)))

        finish(cluster, slot_of(queue), target)
        assert all(isinstance(end, PASSING) for end in ends), ends


async def test_nodes_that_point_at_each_other_are_unavailable(cluster: RedisCluster) -> None:
    queue = fresh()
    slot = slot_of(queue)
    source = holder(cluster, slot)
    target = other_than(cluster, source)
    async with connect(cluster.url + "?deadline=0.6") as broker:
        await send(broker, "a", queue=queue)
        begin(slot, source, target)
        while move(slot, source, target, 10):
            pass
        source.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        target.ask("CLUSTER", "SETSLOT", slot, "STABLE")

        with pytest.raises(BrokerUnavailable, match=f"slot {slot}"):
            await send(broker, "b", queue=queue)

        finish(cluster, slot, target)
        assert ["a"] == ids(await again(lambda: lease(broker, queue=queue)))


async def test_who_waits_is_woken_where_the_queue_is_now(cluster: RedisCluster) -> None:
    queue = fresh()
    slot = slot_of(queue)
    source = holder(cluster, slot)
    target = other_than(cluster, source)
    async with connect(cluster.url) as waiter, connect(cluster.url) as sender:
        assert [] == await lease(waiter, queue=queue)
        waiting = asyncio.create_task(again(lambda: waiter.wait(queue, timeout=60)))
        await becomes(lambda: waiting_at(source) == 1, "it does not wait")
        begin(slot, source, target)
        finish(cluster, slot, target)
        await becomes(lambda: waiting_at(target) == 1, "it does not wait elsewhere")

        await send(sender, "a", queue=queue)

        await asyncio.wait_for(waiting, 10)
        assert ["a"] == ids(await lease(waiter, queue=queue))


async def test_a_script_that_the_new_node_does_not_know_is_sent_to_it(
    cluster: RedisCluster,
) -> None:
    queue = fresh()
    slot = slot_of(queue)
    source = holder(cluster, slot)
    target = other_than(cluster, source)
    async with connect(cluster.url) as broker:
        await send(broker, "a", queue=queue)
        target.ask("SCRIPT", "FLUSH")
        begin(slot, source, target)
        while move(slot, source, target, 10):
            pass
        finish(cluster, slot, target)

        held = await lease_one(broker, queue=queue)
        assert set() == await settle(broker, [held], Archive(), queue=queue)


async def test_a_map_that_is_out_of_date_is_mended_slot_by_slot(cluster: RedisCluster) -> None:
    async with RedisBroker(cluster.url) as broker:
        queues = [fresh() for _ in range(10)]
        link = await broker._open()
        assert isinstance(link, ClusterLink)
        await broker.stats(queues[0])
        wrong = ("127.0.0.1", cluster.nodes[0].port)
        link._slots = dict.fromkeys(range(16384), wrong)

        for queue in queues:
            assert [Sent.CREATED] == await send(broker, "a", queue=queue)

        for queue in queues:
            assert holder(cluster, slot_of(queue)).port == link._slots[slot_of(queue)][1]


async def test_more_calls_than_connections_wait_for_their_turn(cluster: RedisCluster) -> None:
    queue = fresh()
    async with RedisBroker(cluster.url, pool_size=2) as broker:
        ends = await asyncio.gather(*(send(broker, str(n), queue=queue) for n in range(200)))
        assert [[Sent.CREATED]] * 200 == ends

        assert 200 == len(await drained(broker, queue=queue))


async def test_an_answer_that_was_lost_is_not_asked_for_again(cluster: RedisCluster) -> None:
    queue = fresh()
    node = holder(cluster, slot_of(queue))
    async with RedisBroker(cluster.url, deadline=0.5) as broker:
        assert [] == await lease(broker, queue=queue)  # so that the node knows the script
        await send(broker, *map(str, range(5)), queue=queue)

        with node.frozen(), pytest.raises(OutcomeUnknown), at_most(2):
            await lease(broker, 1, queue=queue)

        leased = f"bee:{{{queue}}}:leased"
        await becomes(lambda: node.ask("ZCARD", leased) == 1, "it was not even asked for once")
        left = await again(lambda: lease(broker, queue=queue))
        assert ["1", "2", "3", "4"] == ids(left)


async def test_calls_after_closing_say_so(cluster: RedisCluster) -> None:
    broker = RedisBroker(cluster.url)
    link = await broker._open()
    await broker.aclose()

    with pytest.raises(BrokerClosed):
        await broker.stats("q")
    with pytest.raises(BrokerClosed):
        await link.call(b"{q}", pack(b"GET", b"{q}"), until=asyncio.get_running_loop().time() + 1)


@pytest.fixture
def fragile() -> Iterator[RedisCluster]:
    """A cluster that loses a node, and works on without it."""
    cluster = RedisCluster(valkey_binary(), keep=True)
    for node in cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
        node.ask("CONFIG", "SET", "appendonly", "yes")
    yield cluster
    cluster.stop()


async def test_a_node_that_dies_takes_only_its_own_queues_with_it_until_it_is_back(
    fragile: RedisCluster,
) -> None:
    doomed = fragile.nodes[1]
    queues = [f"q{n}" for n in range(12)]
    gone = [queue for queue in queues if holder(fragile, slot_of(queue)) is doomed]
    others = [queue for queue in queues if queue not in gone]
    async with RedisBroker(fragile.url, deadline=2) as broker:
        for queue in queues:
            await send(broker, "a", queue=queue)
        await drained(broker, queue=gone[0])
        waiting = asyncio.create_task(outcome(broker.wait(gone[0], timeout=60)))
        await becomes(lambda: waiting_at(doomed) == 1, "it does not wait")

        with doomed.frozen():
            calling = asyncio.create_task(outcome(lease(broker, queue=gone[0])))
            await asyncio.sleep(0.02)
            doomed.kill()

        assert isinstance(await calling, PASSING)
        assert isinstance(await asyncio.wait_for(waiting, 10), PASSING)
        for queue in gone:
            with pytest.raises(BrokerUnavailable), at_most(4):
                await send(broker, "b", queue=queue)
        for queue in others:
            assert [Sent.CREATED] == await send(broker, "b", queue=queue)

        doomed.start()
        for queue in gone:
            await again(lambda: send(broker, "b", queue=queue), 30)  # noqa: B023
            assert {"a", "b"} >= set(ids(await lease(broker, queue=queue)))
