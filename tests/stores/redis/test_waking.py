"""Waiting: quick to wake, quiet when idle, and never more than a poll lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import redis

import bee_core as bee
from bee_core.errors import BrokerClosed, BrokerUnavailable
from bee_redis import RedisBroker, session
from bee_redis.keys import keys
from bee_redis.records import drafts_arguments
from bee_redis.scripts import SCRIPTS
from tests.servers import RedisServer

from .support import (
    QUEUE,
    again,
    at_most,
    becomes,
    brokers,
    calls,
    ids,
    key,
    lease,
    send,
    settle,
    waiting_at,
)


class Work(bee.Job):
    number: int = 0


@asynccontextmanager
async def workers(
    server: RedisServer, number: int, done: list[int], poll: float = 1.0
) -> AsyncIterator[list[RedisBroker]]:
    """So many workers, each with a broker of its own, as if in so many processes."""

    async def handle(job: Work) -> None:
        done.append(job.number)

    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(brokers(server.url, number))
        for broker in made:
            worker = bee.Worker(broker, QUEUE, Work, handle, poll=poll, observers=())
            await stack.enter_async_context(worker.working())
        await becomes(lambda: waiting_at(server) == number, "not every worker waits")
        yield made


async def test_an_idle_worker_sends_at_most_two_commands_a_second(server: RedisServer) -> None:
    async with workers(server, 1, []):
        names = ("evalsha", "eval", "blpop", "rpush", "ping", "info", "hello", "client|setinfo")
        own = calls(server, *names)
        before = calls(server, *names)
        own_cost = sum(before.values()) - sum(own.values())  # of this look itself
        begun = time.monotonic()
        await asyncio.sleep(3)  # the worker's own idea of time is what is measured
        took = time.monotonic() - begun

        after = calls(server, *names)

    sent = sum(after.values()) - sum(before.values()) - own_cost
    assert 1 <= sent <= 2 * took, (before, after)


async def test_one_message_wakes_one_worker_of_eight(server: RedisServer) -> None:
    done: list[int] = []
    # A poll longer than the test: whoever leases was woken.
    async with workers(server, 8, done, poll=60), RedisBroker(server.url) as sender:
        queue = bee.Queue(sender, QUEUE, Work)
        await queue.send(Work(0))
        await becomes(lambda: done == [0], "nobody was woken")
        await becomes(lambda: waiting_at(server) == 8, "not every worker waits again")

        for number in range(1, 6):
            before = calls(server, "evalsha")["evalsha"]
            await queue.send(Work(number))
            await becomes(lambda: len(done) == number + 1, "nobody was woken")  # noqa: B023
            await becomes(lambda: waiting_at(server) == 8, "not every worker waits again")

            # The send, the lease of who was woken, the settlement, and another look after it.
            assert calls(server, "evalsha")["evalsha"] - before <= 4


async def test_an_idle_worker_is_woken_at_once(server: RedisServer) -> None:
    done: list[int] = []
    async with workers(server, 1, done, poll=60), RedisBroker(server.url) as sender:
        queue = bee.Queue(sender, QUEUE, Work)
        for number in range(20):
            with at_most(3):
                await queue.send(Work(number))
                await becomes(lambda: len(done) == number + 1, "it was not woken")  # noqa: B023


async def test_as_many_messages_as_workers_wake_them_all(server: RedisServer) -> None:
    async with brokers(server.url, 9) as (sender, *others):
        waiting = [asyncio.create_task(other.wait(QUEUE, timeout=60)) for other in others]
        await becomes(lambda: waiting_at(server) == 8, "not everybody waits")

        await send(sender, *map(str, range(8)))

        await asyncio.wait_for(asyncio.gather(*waiting), 10)


async def test_a_lost_wake_up_costs_no_more_than_a_poll(server: RedisServer) -> None:
    done: list[int] = []
    async with workers(server, 1, done, poll=0.3) as (broker,):
        queue = bee.Queue(broker, QUEUE, Work)
        script, names = SCRIPTS["send"].text, keys("bee", QUEUE)
        arguments = drafts_arguments([queue.draft(Work(1))])
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            lossy = client.pipeline(transaction=True)  # who waits is served when all of it is done
            lossy.execute_command("EVAL", script, len(names), *names, *arguments)
            lossy.delete(key("bell"))
            assert [b"!c", 1] == lossy.execute()

        await becomes(lambda: done == [1], "it was not found", 5)


async def test_a_wake_up_that_was_deleted_costs_no_more_than_the_timeout(
    server: RedisServer,
) -> None:
    async with brokers(server.url, 2) as (sender, waiter):
        await send(sender, "a")
        server.ask("DEL", key("bell"))

        with at_most(5):
            await waiter.wait(QUEUE, timeout=0.1)

        assert ["a"] == ids(await lease(waiter))


async def test_who_has_stopped_waiting_takes_no_wake_up_from_others(server: RedisServer) -> None:
    """The first one's connection goes on waiting for a while, and is served first."""
    async with brokers(server.url, 3) as (busy, idle, sender):
        await busy.wait(QUEUE, timeout=0.01)
        await becomes(lambda: waiting_at(server) == 1, "the first does not listen")
        waiting = asyncio.create_task(idle.wait(QUEUE, timeout=60))
        await becomes(lambda: waiting_at(server) == 2, "the second does not wait")

        await send(sender, "a")

        await asyncio.wait_for(waiting, 10)
        assert ["a"] == ids(await lease(idle))


async def test_a_wake_up_that_nobody_wanted_is_there_for_who_comes_later(
    server: RedisServer,
) -> None:
    async with brokers(server.url, 2) as (broker, sender):
        await broker.wait(QUEUE, timeout=0.01)
        await becomes(lambda: waiting_at(server) == 1, "it does not listen")
        await send(sender, "a")
        await becomes(lambda: server.ask("LLEN", key("bell")) == 1, "it was not given back")

        with at_most(5):
            await broker.wait(QUEUE, timeout=60)


async def test_a_wake_up_that_cannot_be_given_back_is_no_trouble(own: RedisServer) -> None:
    async with RedisBroker(own.url) as broker:
        await broker.wait(QUEUE, timeout=0.01)
        await becomes(lambda: waiting_at(own) == 1, "it does not listen")
        own.ask("CONFIG", "SET", "maxmemory", 1)
        own.ask("EVAL", "#!lua flags=allow-oom\nredis.call('RPUSH', KEYS[1], 1)", 1, key("bell"))
        reader = broker._bells[QUEUE]._reader
        assert reader is not None
        await asyncio.wait_for(reader, 10)  # it has tried to give the wake-up back

        await broker.wait(QUEUE, timeout=0.05)
        await becomes(lambda: waiting_at(own) == 1, "it does not listen any more")


async def test_a_wake_up_that_nobody_here_wants_reaches_who_waits_elsewhere_at_once(
    server: RedisServer,
) -> None:
    async with brokers(server.url, 2) as (here, elsewhere):
        leaving = asyncio.create_task(here.wait(QUEUE, timeout=60))
        await becomes(lambda: waiting_at(server) == 1, "it does not wait")
        leaving.cancel()  # and what it was to hear is still listened for
        waiting = asyncio.create_task(elsewhere.wait(QUEUE, timeout=60))
        await becomes(lambda: waiting_at(server) == 2, "it does not wait")

        here._bells[QUEUE].pass_on()

        await asyncio.wait_for(waiting, 5)


async def test_who_closes_a_broker_and_is_cancelled_leaves_no_connection(own: RedisServer) -> None:
    before = connected_to(own)
    for turns in range(1, 9):
        broker = RedisBroker(own.url)
        waiting = asyncio.create_task(broker.wait(QUEUE, timeout=60))
        await becomes(lambda: waiting_at(own) == 1, "it does not wait")
        await send(broker, str(turns))
        await waiting
        closing = asyncio.create_task(broker.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

        await becomes(lambda: connected_to(own) == before, "connections are left")


def connected_to(server: RedisServer) -> int:
    """How many connections there are, with that of who asks."""
    return int(server.ask("INFO", "clients")["connected_clients"])


async def test_wake_ups_do_not_pile_up(server: RedisServer, broker: RedisBroker) -> None:
    for number in range(50):
        await send(broker, str(number))
    assert 8 == server.ask("LLEN", key("bell"))

    while leases := await lease(broker):
        await settle(broker, leases)

    assert 0 == server.ask("EXISTS", key("bell"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(broker.wait(QUEUE, timeout=60), 0.1)


async def test_more_queues_than_can_be_listened_to_are_polled(
    server: RedisServer, broker: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_BELLS", 3)
    waiting = [asyncio.create_task(broker.wait(f"q{n}", timeout=60)) for n in range(3)]
    await becomes(lambda: waiting_at(server) == 3, "they do not wait")

    with at_most(5):
        await broker.wait("q3", timeout=0.05)

    for number in range(3):
        await send(broker, "a", queue=f"q{number}")
    await asyncio.wait_for(asyncio.gather(*waiting), 10)


async def test_a_wait_notices_that_the_server_is_gone_and_that_it_is_back(own: RedisServer) -> None:
    async with RedisBroker(own.url) as broker:
        await gone_and_back(own, broker)


async def gone_and_back(server: RedisServer, broker: RedisBroker) -> None:
    waiting = asyncio.create_task(broker.wait(QUEUE, timeout=60))
    await becomes(lambda: waiting_at(server) == 1, "it does not wait")
    server.kill()

    with pytest.raises(bee.BrokerError):
        await asyncio.wait_for(waiting, 10)
    with pytest.raises(BrokerUnavailable):
        await broker.wait(QUEUE, timeout=60)

    server.directory.mkdir(exist_ok=True)
    server.start()
    await again(lambda: send(broker, "a"))
    await asyncio.wait_for(broker.wait(QUEUE, timeout=60), 10)


async def test_who_waits_when_a_broker_is_closed_is_sent_away(server: RedisServer) -> None:
    broker = RedisBroker(server.url)
    waiting = [asyncio.create_task(broker.wait(QUEUE, timeout=60)) for _ in range(3)]
    await becomes(lambda: waiting_at(server) == 1, "they do not wait")

    await broker.aclose()

    ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
    assert [BrokerClosed] * 3 == [type(end) for end in ends]
    await becomes(lambda: waiting_at(server) == 0, "its connection is still there")
