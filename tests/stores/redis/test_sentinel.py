"""Behind Sentinel: a master that dies under load, and another that takes over."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager

import pytest

import bee_core as bee
from bee_core import connect
from bee_core.errors import BrokerUnavailable, OutcomeUnknown
from bee_core.message import Sent
from bee_core.testing.conformance import BrokerConformance, Harness
from bee_redis import RedisBroker
from tests.conformance.test_redis import RedisHarness
from tests.servers import RedisSentinels, free_port, valkey_binary

from .support import (
    PASSING,
    QUEUE,
    again,
    at_most,
    becomes,
    drained,
    lease,
    lease_one,
    outcome,
    send,
    settle,
    waiting_at,
)


@pytest.fixture(scope="module")
def sentinels() -> Iterator[RedisSentinels]:
    servers = RedisSentinels(valkey_binary())
    yield servers
    servers.stop()


@pytest.fixture
def fragile() -> Iterator[RedisSentinels]:
    """Some that will lose their master."""
    servers = RedisSentinels(valkey_binary())
    yield servers
    servers.stop()


class TestSmoke:
    """Some of the contract, one or two of each verb: the rest does not depend on who is master."""

    NAMES = (
        "test_a_message_sent_meanwhile_is_heard",
        "test_a_message_sent_by_a_clone_is_heard",
        "test_a_wait_that_is_cancelled_takes_nothing_with_it",
        "test_a_cancelled_send_is_stored_wholly_or_not_at_all",
        "test_a_cancelled_lease_loses_nothing",
        "test_after_closing_every_verb_says_so",
        "test_a_clone_outlives_the_one_it_came_from",
        "test_every_verb_refuses_a_bad_queue_name",
        "test_the_longest_name_and_the_longest_id_are_good",
        "test_a_call_with_nothing_to_do_does_nothing",
        "test_a_restored_message_can_be_worked_and_archived_again",
        "test_pruning_keeps_the_newest",
        "test_as_many_messages_wake_as_many_waiters",
    )

    @pytest.mark.parametrize("name", NAMES)
    async def test_the_contract(self, sentinels: RedisSentinels, name: str) -> None:
        class Behind(BrokerConformance):
            @asynccontextmanager
            async def harness(self) -> AsyncIterator[Harness]:
                async with RedisBroker(sentinels.url) as broker:
                    yield RedisHarness(broker)

        await getattr(Behind(), name)()


async def test_a_sentinel_that_is_down_is_passed_over(sentinels: RedisSentinels) -> None:
    url = sentinels.url.replace("://", f"://127.0.0.1:{free_port()},")
    async with connect(url) as broker:
        with sentinels.sentinels[0].frozen(), at_most(4):
            assert [Sent.CREATED] == await send(broker, "a")

        assert ["a"] == await drained(broker)


async def test_sentinels_that_are_all_down_are_no_trouble_for_who_is_connected(
    sentinels: RedisSentinels,
) -> None:
    async with connect(sentinels.url) as broker, broker.clone() as other:
        await send(broker, "a")
        with ExitStack() as frozen:
            for sentinel in sentinels.sentinels:
                frozen.enter_context(sentinel.frozen())

            assert ["a"] == await drained(broker)
            with pytest.raises(BrokerUnavailable, match="no sentinel answers"):
                await lease(other)


async def test_a_master_that_nobody_knows_is_named(sentinels: RedisSentinels) -> None:
    async with connect(sentinels.url.replace("mymaster", "nobody")) as broker:
        with pytest.raises(BrokerUnavailable, match="no sentinel knows a master 'nobody'"):
            await send(broker, "a")


async def test_a_master_that_is_demoted_is_left(sentinels: RedisSentinels) -> None:
    """A planned failover: the old master lives on, and refuses to be written to."""
    async with RedisBroker(sentinels.url, deadline=2) as broker:
        await send(broker, "a", "b")
        held = await lease_one(broker)
        waiting = asyncio.create_task(outcome(broker.wait("other", timeout=60)))
        await becomes(lambda: waiting_at(sentinels.master) == 1, "it does not wait")

        sentinels.sentinels[0].ask("SENTINEL", "FAILOVER", sentinels.name)
        await becomes(lambda: role(sentinels) == b"master", "there was no failover", 30)
        # The sentinels do this too, but take ten seconds over it.
        sentinels.master.ask("REPLICAOF", "127.0.0.1", sentinels.replica.port)

        assert isinstance(await asyncio.wait_for(waiting, 20), PASSING)
        assert set() == await again(lambda: settle(broker, [held]), 30)
        assert ["b"] == await drained(broker)
        assert 0 == (await broker.stats(QUEUE)).live


def role(servers: RedisSentinels) -> bytes:
    """What the former replica is now."""
    answer: bytes = servers.replica.ask("ROLE")[0]
    return answer


async def test_a_master_is_killed_under_load_and_nothing_that_was_confirmed_is_lost(
    fragile: RedisSentinels,
) -> None:
    """Documented: what only the old master had is gone. What its replica had, it still has."""
    runs: Counter[str] = Counter()
    confirmed: list[str] = []
    doubtful: list[str] = []
    loading = True

    async def handle(job: str) -> None:
        runs[job] += 1

    async def keep_sending(name: str, broker: RedisBroker) -> None:
        jobs = bee.Queue(broker, QUEUE, str)
        number = 0
        while loading:
            number += 1
            id = f"{name}{number}"
            try:
                await broker.send(QUEUE, [jobs.draft(id, id=id)])
                confirmed.append(id)
            except OutcomeUnknown:
                doubtful.append(id)
            except BrokerUnavailable:
                pass
            await asyncio.sleep(0.002)

    async with (
        RedisBroker(fragile.url, replicas=1, deadline=1) as sender,
        RedisBroker(fragile.url, deadline=1) as broker,
    ):
        worker = bee.Worker(broker, QUEUE, str, handle, observers=(), poll=0.2, lease=2)
        async with worker.working():
            load = [asyncio.create_task(keep_sending(name, sender)) for name in "abc"]
            await becomes(lambda: len(runs) > 50, "no load")
            fragile.master.kill()
            at_kill = len(runs)
            before = len(confirmed)
            loading_until = time.monotonic() + 2
            await becomes(lambda: time.monotonic() > loading_until, "time stands still")
            loading = False
            await asyncio.gather(*load)

            plain = bee.Queue(broker, QUEUE, str)
            await again(lambda: plain.send("last", id="last"), 30)
            with at_most(30):
                await becomes(lambda: "last" in runs, "no work after the failover", 30)
                await becomes(lambda: set(confirmed) <= set(runs), "a confirmed job is lost", 30)

    assert before >= 50
    assert len(runs) > at_kill
    assert set(runs) <= {*confirmed, *doubtful, "last"}
