"""Waiting: quick to wake, quiet when idle, and never more than a poll lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

import bee_core as bee
from bee_core.errors import BrokerClosed, BrokerError
from bee_core.message import Draft, Update
from bee_pg import PgBroker
from bee_pg import broker as module
from tests.servers import PgServer

from .support import (
    QUEUE,
    again,
    ask,
    at_most,
    becomes,
    brokers,
    connected,
    ids,
    lease,
    outcome,
    resting,
    send,
    settle,
)


class Work(bee.Job):
    number: int = 0


def waits(broker: PgBroker, queue: str = QUEUE) -> bool:
    """Whether somebody waits on this broker, and has nothing else to do."""
    bell = broker._bell
    idle = not broker._pool._busy
    listed = bell is not None and bell.resting.get(queue, 0.0) > 0
    return bell is not None and bell.is_awaited(queue) and listed and idle


@asynccontextmanager
async def workers(
    url: str, number: int, done: list[int], poll: float = 1.0, **options: Any
) -> AsyncIterator[list[PgBroker]]:
    """So many workers, each with a broker of its own, as if in so many processes."""

    async def handle(job: Work) -> None:
        done.append(job.number)

    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(brokers(url, number, **options))
        for broker in made:
            worker = bee.Worker(broker, QUEUE, Work, handle, poll=poll, observers=())
            await stack.enter_async_context(worker.working())
        if options.get("notify", True):
            await becomes(lambda: all(map(waits, made)), "not every worker waits")
        yield made


class Count:
    """Counts the calls that a broker makes."""

    def __init__(self, *brokers: PgBroker) -> None:
        self.calls: list[str] = []
        for broker in brokers:
            broker._pool.call = self._counted(broker._pool.call)  # type: ignore[method-assign]

    def _counted(self, call: Any) -> Any:
        async def counted(statement: str, *arguments: Any, **options: Any) -> Any:
            self.calls.append(statement)
            return await call(statement, *arguments, **options)

        return counted


async def test_an_idle_worker_sends_at_most_three_statements_a_second(url: str) -> None:
    async with workers(url, 1, []) as made:
        count = Count(*made)
        begun = time.monotonic()
        await asyncio.sleep(3)  # the worker's own idea of time is what is measured
        took = time.monotonic() - begun

    assert 1 <= len(count.calls) <= 3 * took, count.calls


async def test_an_idle_worker_that_polls_sends_no_more(url: str) -> None:
    async with workers(url, 1, [], notify=False) as made:
        await asyncio.sleep(2)
        count = Count(*made)
        begun = time.monotonic()
        await asyncio.sleep(3)
        took = time.monotonic() - begun

    assert 1 <= len(count.calls) <= 3 * took, count.calls


async def test_a_message_that_somebody_has_locked_does_not_keep_idle_workers_busy(
    url: str,
) -> None:
    """It is ready, and yet cannot be leased, until his transaction ends."""
    done: list[int] = []
    async with workers(url, 1, done) as (broker,):
        queue = bee.Queue(broker, QUEUE, Work)
        await broker.pause(QUEUE)
        await queue.send(Work(1))
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("select from bee.message for update")
            await broker.resume(QUEUE)
            await asyncio.sleep(1)
            count = Count(broker)
            await asyncio.sleep(1)
            assert len(count.calls) <= 20, len(count.calls)
            await other.rollback()
        await becomes(lambda: done == [1], "it was not found", 3)


async def test_one_message_wakes_one_worker_of_eight(url: str) -> None:
    done: list[int] = []
    # A poll longer than the test: whoever leases was woken.
    async with workers(url, 8, done, poll=60) as made, PgBroker(url) as sender:
        queue = bee.Queue(sender, QUEUE, Work)
        for number in range(6):
            count = Count(*made)
            await queue.send(Work(number))
            await becomes(lambda: len(done) == number + 1, "nobody was woken")  # noqa: B023
            await becomes(lambda: all(map(waits, made)), "not every worker waits again")

            leases = [call for call in count.calls if ".lease(" in call]
            assert len(leases) <= 2, leases  # of who was woken, and another look after it


async def test_an_idle_worker_is_woken_at_once(url: str) -> None:
    done: list[int] = []
    took: list[float] = []
    async with workers(url, 1, done, poll=60), PgBroker(url) as sender:
        queue = bee.Queue(sender, QUEUE, Work)
        for number in range(20):
            begun = time.monotonic()
            await queue.send(Work(number))
            while len(done) <= number:
                await asyncio.sleep(0)
                assert time.monotonic() - begun < 3, "it was not woken"
            took.append(time.monotonic() - begun)
    assert sorted(took)[10] < 0.25


async def test_who_waits_for_longer_than_he_is_listed_is_woken_too(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REST", 0.1)
    async with brokers(url, 2) as (sender, waiter):
        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await asyncio.sleep(1)  # ten times as long as he looks after himself
        await becomes(lambda: resting(url) == 1, "he is listed no longer")

        await send(sender, "a")

        with at_most(3):
            await waiting


async def test_as_many_messages_as_workers_wake_them_all(url: str) -> None:
    async with brokers(url, 9) as (sender, *others):
        waiting = [asyncio.create_task(other.wait(QUEUE, timeout=60)) for other in others]
        await becomes(lambda: all(map(waits, others)), "not everybody waits")

        await send(sender, *map(str, range(8)))

        await asyncio.wait_for(asyncio.gather(*waiting), 4)


async def test_a_busy_worker_takes_no_wake_up_from_an_idle_one(url: str) -> None:
    """It has waited of late, and is still listed as idle."""
    for _ in range(6):
        async with brokers(url, 3) as (busy, idle, sender):
            for other in (busy, idle):
                await other.wait(QUEUE, timeout=0.01)
            waiting = asyncio.create_task(idle.wait(QUEUE, timeout=60))
            await becomes(partial(waits, idle), "it does not wait")

            await send(sender, "a")

            await asyncio.wait_for(waiting, 4)
            assert ["a"] == ids(await lease(idle))
            await sender.drop(QUEUE)


async def test_who_was_rung_in_vain_is_not_rung_again(url: str) -> None:
    """So nobody's commit pays for a notification while there is enough to do."""
    async with brokers(url, 2) as (worker, sender):
        await worker.wait(QUEUE, timeout=0.01)
        async with hearing(url, worker) as heard:
            for number in range(20):
                await send(sender, str(number))
                (held,) = await lease(worker, 1)
                await settle(worker, [held])
                await worker._ears().risen()
                await asyncio.sleep(0.01)
            assert len(await heard()) <= 2


async def test_a_busy_queue_soon_sends_no_notification(url: str) -> None:
    async with brokers(url, 3) as (first, second, sender):
        await send(sender, *(f"m{n}" for n in range(400)))
        for worker in (first, second):
            await worker.wait(QUEUE, timeout=0.01)
        async with hearing(url, first) as one, hearing(url, second) as other:
            for turns in range(20):
                for turn in range(15):
                    await send(sender, f"n{turns}-{turn}")
                    for worker in (first, second):
                        await settle(worker, await lease(worker, 1))
                    await asyncio.sleep(0.005)
                if not await one() + await other():
                    return
        pytest.fail("they are rung again and again")


@asynccontextmanager
async def hearing(url: str, broker: PgBroker) -> AsyncIterator[Any]:
    """Hear what is sent to a broker."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"listen {broker._ears().channel}")

        async def heard() -> list[psycopg.Notify]:
            return [one async for one in connection.notifies(timeout=0.1)]

        yield heard


async def test_a_lease_that_takes_long_does_not_unlist_who_waits_meanwhile(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers(url, 2) as (broker, sender):
        await broker.wait(QUEUE, timeout=0.01)
        await send(sender, *(f"m{n}" for n in range(20)))
        assert 20 == len(await lease(broker, 50))
        call = broker._pool.call

        async def slow(statement: str, arguments: Sequence[Any], *, until: float) -> Any:
            if ".lease(" in statement:
                await asyncio.sleep(0.3)
            return await call(statement, arguments, until=until)

        monkeypatch.setattr(broker._pool, "call", slow)
        leasing = asyncio.create_task(lease(broker, 50))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(fetched(broker))
        assert [] == await leasing
        await becomes(partial(waits, broker), "it does not wait")

        await send(sender, "late")

        assert "late" == await asyncio.wait_for(waiting, 3)


async def fetched(broker: PgBroker) -> str:
    """As a worker with one slot does."""
    while True:
        await broker.wait(QUEUE, timeout=60)
        for held in await lease(broker, 1):
            return held.receipt.id


async def test_who_is_about_to_wait_does_not_keep_a_broker_from_being_closed(url: str) -> None:
    for turns in range(12):
        async with brokers(url, 1) as (broker,):
            first = asyncio.create_task(broker.wait(QUEUE, timeout=60))
            await becomes(partial(waits, broker), "it does not wait")
            second = asyncio.create_task(broker.wait("other", timeout=60))
            for _ in range(turns):
                await asyncio.sleep(0)

            await broker.aclose()

            for waiting in (first, second):
                with pytest.raises(BrokerError):
                    await waiting


async def test_a_lost_wake_up_costs_no_more_than_a_poll(url: str) -> None:
    done: list[int] = []
    async with workers(url, 1, done, poll=0.3) as (broker,), PgBroker(url) as sender:
        ask(url, "delete from bee.idle")

        await bee.Queue(sender, QUEUE, Work).send(Work(1))

        await becomes(lambda: done == [1], "it was not found", 5)
        assert broker


async def test_a_delayed_message_is_found_when_it_is_due(url: str) -> None:
    async with brokers(url, 2) as (sender, waiter):
        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await becomes(lambda: waits(waiter), "it does not wait")
        await send(sender, "a", delay=0.3)
        await asyncio.wait_for(waiting, 3)
        with at_most(3):
            while not await lease(waiter):
                await waiter.wait(QUEUE, timeout=60)


async def test_a_wait_recovers_when_its_listener_is_terminated(url: str) -> None:
    async with brokers(url, 2) as (sender, waiter):
        waiting = asyncio.create_task(outcome(waiter.wait(QUEUE, timeout=60)))
        await becomes(lambda: waits(waiter), "it does not wait")
        ask(
            url,
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and query like 'listen%'",
        )
        assert isinstance(await asyncio.wait_for(waiting, 5), BrokerError)

        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await becomes(lambda: waits(waiter), "it does not wait again")
        await send(sender, "a")
        await asyncio.wait_for(waiting, 4)
        assert connected(url) <= 6


async def test_workers_are_woken_after_a_crash_of_the_server_that_forgot_them(
    own: PgServer,
) -> None:
    url = own.database()
    async with brokers(url, 2) as (sender, waiter):
        await waiter.wait(QUEUE, timeout=0.01)
        own.kill()
        own.start()
        assert 0 == resting(url)

        await outcome(waiter.wait(QUEUE, timeout=0.01))
        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await becomes(lambda: waits(waiter), "it does not wait")
        await again(lambda: send(sender, "a"))
        await asyncio.wait_for(waiting, 4)


async def test_trouble_while_waiting_leaves_no_exception_that_nobody_asked_for(
    own: PgServer,
) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    url = own.database()
    async with brokers(url, 1, deadline=1) as (broker,):
        await broker.wait(QUEUE, timeout=0.01)
        own.ask("select pg_reload_conf()")
        waiting = [asyncio.create_task(outcome(broker.wait(QUEUE, timeout=5))) for _ in range(8)]
        await asyncio.sleep(0)
        own.kill()
        await asyncio.wait_for(asyncio.gather(*waiting), 10)
        del waiting
        await asyncio.sleep(0.01)
    assert [] == complaints


async def test_those_who_are_long_gone_are_forgotten(url: str, broker: PgBroker) -> None:
    ask(
        url,
        "insert into bee.idle select %s, 'bee_' || n, now() - interval '1 day' "
        "from generate_series(1, 50) n",
        QUEUE,
    )
    await broker.wait(QUEUE, timeout=0.01)

    assert [(1,)] == ask(url, "select count(*) from bee.idle")


async def test_a_message_committed_late_is_found_soon(url: str, broker: PgBroker) -> None:
    """Although its place is before all that was leased meanwhile, by a slow program."""

    class Named:
        name = QUEUE

        def draft(self, job: Draft) -> Draft:
            return job

    async with await psycopg.AsyncConnection.connect(url) as other:
        await broker.sending(other).send(Named(), Draft("late", b""))
        for number in range(5):
            await send(broker, str(number))
            leasing = asyncio.create_task(lease(broker))
            await asyncio.sleep(0)
            time.sleep(0.2)  # noqa: ASYNC251
            await settle(broker, await leasing)
        await other.commit()

    begun = time.monotonic()
    while "late" not in ids(await lease(broker)):
        assert time.monotonic() - begun < 3, "it was not found"
        await asyncio.sleep(0.01)


async def test_who_waits_when_a_broker_is_closed_is_sent_away(url: str) -> None:
    async with brokers(url, 1) as (broker,):
        waiting = [asyncio.create_task(broker.wait(QUEUE, timeout=60)) for _ in range(3)]
        await becomes(lambda: waits(broker), "they do not wait")

        await broker.aclose()

        ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
        assert [BrokerClosed] * 3 == [type(end) for end in ends]
        await becomes(lambda: connected(url) == 0, "its connection is still there")


async def test_who_is_about_to_wait_when_a_broker_is_closed_is_sent_away_too(url: str) -> None:
    """His statement is under way, and is cut off: it changes nothing that anybody misses."""
    async with brokers(url, 1) as (broker,):
        await broker.wait(QUEUE, timeout=0.01)
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("lock table bee.message")  # and so its last look waits
            waiting = asyncio.create_task(broker.wait(QUEUE, timeout=60))
            await becomes(lambda: bool(broker._pool._busy), "it does not look")

            await broker.aclose()

            with pytest.raises(BrokerClosed):
                await asyncio.wait_for(waiting, 5)


async def test_a_successor_and_an_update_wake_who_waits(url: str) -> None:
    async with brokers(url, 2) as (sender, waiter):
        await send(sender, "a", delay=3600)
        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await becomes(lambda: waits(waiter), "it does not wait")
        await send(sender, "a", if_taken=Update())
        await asyncio.wait_for(waiting, 4)
        (held,) = await lease(waiter)
        await send(sender, "a", if_taken=Update())
        waiting = asyncio.create_task(waiter.wait(QUEUE, timeout=60))
        await becomes(lambda: waits(waiter), "it does not wait")
        await settle(sender, [held])
        await asyncio.wait_for(waiting, 4)


def ring_often(url: str, channel: str, times: int = 50) -> None:
    """Without letting anybody hear of it in between."""
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(times):  # in one transaction they would be one
            connection.execute("select pg_notify(%s, %s)", (channel, QUEUE))


async def test_who_is_rung_many_times_looks_once_and_tells_nobody(url: str) -> None:
    async with brokers(url, 1) as [broker]:
        waiting = asyncio.create_task(broker.wait(QUEUE, timeout=30))
        await becomes(lambda: waits(broker), "it does not wait")
        count = Count(broker)
        assert broker._bell is not None
        ring_often(url, broker._bell.channel)
        with at_most(5):
            await waiting
        await asyncio.sleep(0.3)
        told = [call for call in count.calls if "rise" in call]

    assert len(told) <= 2  # what the last read has left over


async def test_who_is_busy_and_rung_many_times_wakes_another_and_is_done(url: str) -> None:
    async with brokers(url, 2) as [busy, idle]:
        waiting = asyncio.create_task(busy.wait(QUEUE, timeout=30))
        await becomes(lambda: waits(busy), "it does not wait")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        waiting = asyncio.create_task(idle.wait(QUEUE, timeout=30))
        await becomes(lambda: waits(idle), "the other does not wait")
        count = Count(busy)
        assert busy._bell is not None
        ring_often(url, busy._bell.channel)
        with at_most(5):
            await waiting
        await asyncio.sleep(0.3)
        told = [call for call in count.calls if "rise" in call]

    assert 1 <= len(told) <= 3
