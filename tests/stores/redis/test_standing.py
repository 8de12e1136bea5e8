"""A lease that is left with the server takes what comes, ends in time, and loses nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

import bee_core as bee
from bee_core.broker import Order
from bee_core.errors import (
    BrokerClosed,
    BrokerMisconfigured,
    BrokerUnavailable,
    InvalidName,
    InvalidOption,
    OutcomeUnknown,
)
from bee_core.events import BrokerTrouble
from bee_core.message import Lease
from bee_memory import MemoryBroker
from bee_redis import RedisBroker
from bee_redis.standing import StandingOrder
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
    waiting_at,
)


class Work(bee.Job):
    number: int = 0


async def nothing(job: Work) -> None:
    pass


def order(broker: RedisBroker, timeout: float = 60.0, limit: int = 10) -> StandingOrder:
    """A lease that stands."""
    made = broker.order(QUEUE, limit=limit, duration=60.0, holder="w", timeout=timeout)
    assert made is not None
    return made


async def stand(server: RedisServer, made: StandingOrder) -> asyncio.Task[Sequence[Lease]]:
    """Leave it with the server; return when it stands there."""
    before = waiting_at(server)
    task = asyncio.create_task(made.leases())  # type: ignore[arg-type]
    await becomes(lambda: waiting_at(server) > before, "it does not stand")
    return task


async def opened(broker: RedisBroker) -> RedisBroker:
    """One that has leased before, as that of a worker has."""
    assert [] == await lease(broker)
    return broker


async def test_it_takes_what_is_sent_while_it_stands(server: RedisServer) -> None:
    async with brokers(server.url, 2) as (worker, sender):
        standing = await stand(server, order(await opened(worker)))

        await send(sender, "a")

        with at_most(5):
            assert ["a"] == ids(await standing)
        assert 1 == (await sender.stats(QUEUE)).leased


async def test_one_message_is_taken_by_one_of_many(server: RedisServer) -> None:
    async with brokers(server.url, 5) as (sender, *others):
        standing = [await stand(server, order(await opened(other))) for other in others]

        await send(sender, "a")
        await becomes(lambda: any(task.done() for task in standing), "nobody took it")

        assert 3 == waiting_at(server)
        await send(sender, "b", "c", "d")
        taken = [id for leases in await asyncio.gather(*standing) for id in ids(leases)]
        assert ["a", "b", "c", "d"] == sorted(taken)


async def test_it_ends_with_nothing_when_its_time_is_over(
    server: RedisServer, broker: RedisBroker
) -> None:
    with at_most(5):
        assert [] == await order(await opened(broker), timeout=0.05).leases()
    assert 0 == waiting_at(server)


async def test_it_may_stand_for_longer_than_the_deadline_of_a_call(server: RedisServer) -> None:
    async with RedisBroker(server.url, deadline=0.2) as broker:
        assert [] == await order(await opened(broker), timeout=0.6).leases()


async def test_none_stands_beyond_the_time_at_which_something_is_due(broker: RedisBroker) -> None:
    """A server ends what it blocks up to a tenth of a second late; who waits here does not."""
    await send(broker, "later", delay=30)
    assert [] == await lease(broker)  # so it knows

    assert broker.order(QUEUE, limit=1, duration=60, holder="w", timeout=60) is None
    assert broker.order(QUEUE, limit=1, duration=60, holder="w", timeout=10) is not None


async def test_no_more_stand_than_there_are_connections_for(server: RedisServer) -> None:
    async with RedisBroker(server.url) as broker:
        await opened(broker)
        made = [order(broker) for _ in range(64)]
        standing = [asyncio.create_task(one.leases()) for one in made]
        await becomes(lambda: waiting_at(server) == 64, "not all stand")

        assert broker.order(QUEUE, limit=1, duration=60, holder="w", timeout=60) is None

        with at_most(5):
            for one in made:
                one.recall()
            assert [[]] * 64 == await asyncio.gather(*standing)
        assert broker.order(QUEUE, limit=1, duration=60, holder="w", timeout=60) is not None


async def test_a_recall_that_the_server_refuses_ends_it_all_the_same(own: RedisServer) -> None:
    async with RedisBroker(own.url) as broker:
        made = order(await opened(broker))
        standing = await stand(own, made)
        own.ask("CONFIG", "SET", "maxmemory", "1")

        made.recall()

        with pytest.raises(OutcomeUnknown, match="recalled"), at_most(3):
            await standing


async def test_a_recall_is_not_waited_for_if_the_server_hangs(own: RedisServer) -> None:
    async with RedisBroker(own.url) as broker:
        made = order(await opened(broker))
        standing = await stand(own, made)
        with own.frozen():
            made.recall()
            with pytest.raises(OutcomeUnknown, match="recalled"), at_most(3):
                await standing


async def test_a_recall_has_it_end_at_once(server: RedisServer, broker: RedisBroker) -> None:
    made = order(await opened(broker))
    standing = await stand(server, made)

    made.recall()
    made.recall()

    with at_most(5):
        assert [] == await standing


@pytest.mark.parametrize("alike", [False, True], ids=["elsewhere", "beside it"])
async def test_a_recall_wakes_nobody_else(server: RedisServer, alike: bool) -> None:
    async with brokers(server.url, 2) as (one, other):
        other = one if alike else other
        others = await stand(server, order(await opened(other)))
        made = order(await opened(one))
        standing = await stand(server, made)

        made.recall()
        assert [] == await standing

        assert not others.done()
        assert 1 == waiting_at(server)
        await send(one, "a")
        assert ["a"] == ids(await others)


async def test_what_is_recalled_before_it_stands_does_not_stand(broker: RedisBroker) -> None:
    made = order(await opened(broker))
    made.recall()

    with at_most(5):
        assert [] == await made.leases()


async def test_what_is_recalled_still_brings_what_it_has_leased(broker: RedisBroker) -> None:
    made = order(await opened(broker))
    await send(broker, "a")
    made.recall()

    assert ["a"] == ids(await made.leases())


async def test_a_recall_that_comes_too_late_leaves_nothing_behind_for_long(
    server: RedisServer, broker: RedisBroker
) -> None:
    made = order(await opened(broker))
    standing = await stand(server, made)
    made.recall()
    await send(broker, "a")
    await standing
    await asyncio.sleep(0.05)

    for left in server.ask("KEYS", "bee:*:bell:*"):
        assert 0 < server.ask("PTTL", left) <= 10_000


async def test_who_is_cancelled_leaves_no_lease_behind(
    server: RedisServer, broker: RedisBroker
) -> None:
    standing = await stand(server, order(await opened(broker)))

    standing.cancel()
    await asyncio.gather(standing, return_exceptions=True)
    await becomes(lambda: waiting_at(server) == 0, "it still stands")
    await send(broker, "a")

    assert 1 == (await broker.stats(QUEUE)).ready


async def test_a_server_that_has_forgotten_its_scripts_is_told_them_again(
    server: RedisServer, broker: RedisBroker
) -> None:
    made = order(await opened(broker))
    standing = await stand(server, made)
    server.ask("SCRIPT", "FLUSH")

    await send(broker, "a")

    assert ["a"] == ids(await standing)


async def test_foreign_data_is_named(server: RedisServer, broker: RedisBroker) -> None:
    await opened(broker)
    server.ask("SET", key("bell"), "mine")

    with pytest.raises(BrokerMisconfigured, match=r"bell is a string, not a list"):
        await order(broker).leases()


async def test_who_stands_when_the_broker_is_closed_hears_of_it(server: RedisServer) -> None:
    broker = RedisBroker(server.url)
    standing = await stand(server, order(await opened(broker)))

    await broker.aclose()

    with pytest.raises(bee.BrokerError), at_most(5):
        await standing
    with pytest.raises(BrokerClosed):
        order(broker)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"limit": 0}, InvalidOption),
        ({"duration": -1}, InvalidOption),
        ({"holder": ""}, InvalidName),
        ({"timeout": -1}, InvalidOption),
    ],
)
async def test_arguments_are_checked_first(
    broker: RedisBroker, wrong: dict[str, Any], error: type[Exception]
) -> None:
    options: dict[str, Any] = {"limit": 1, "duration": 60.0, "holder": "w", "timeout": 1.0}
    await opened(broker)

    with pytest.raises(error):
        broker.order(QUEUE, **(options | wrong))
    with pytest.raises(InvalidName):
        broker.order("No Queue", **options)


async def test_it_cannot_be_left_before_the_server_was_looked_at(server: RedisServer) -> None:
    async with RedisBroker(server.url) as broker:
        assert broker.order(QUEUE, limit=1, duration=60, holder="w", timeout=1) is None


async def test_who_waits_no_longer_does_not_listen_any_longer(
    server: RedisServer, broker: RedisBroker
) -> None:
    """Else the wake-up that an order stands behind would go to where nobody waits."""
    await broker.wait(QUEUE, timeout=0.2)

    await becomes(lambda: waiting_at(server) == 0, "it still listens", 2)


# The worker.


class Counting(RedisBroker):
    """Counts the orders that were made."""

    orders = 0

    def order(self, queue: str, **options: Any) -> StandingOrder | None:
        type(self).orders += 1
        return super().order(queue, **options)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr(Counting, "orders", 0)
    return Counting


async def test_an_idle_worker_leaves_its_lease_with_the_server(
    server: RedisServer, counting: type[Counting]
) -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        done.append(job.number)

    async with counting(server.url) as broker, RedisBroker(server.url) as sender:
        worker = bee.Worker(broker, QUEUE, Work, handle, poll=5)
        async with worker.working():
            await becomes(lambda: waiting_at(server) == 1, "it does not wait")
            queue = bee.Queue(sender, QUEUE, Work)
            await queue.send(Work(1))  # which has the server know the scripts
            await becomes(lambda: worker.health().settled == 1, "it was not done")
            await becomes(lambda: waiting_at(server) == 1, "it does not wait again")
            before = calls(server, "evalsha")["evalsha"]
            await queue.send(Work(2))
            await becomes(lambda: worker.health().settled == 2, "it was not done")
            after = calls(server, "evalsha")["evalsha"]

    assert [1, 2] == done
    assert counting.orders > 0
    assert after - before == 3  # one to send, one to lease, one to settle


async def test_many_that_come_at_once_are_all_taken(server: RedisServer) -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        done.append(job.number)

    async with RedisBroker(server.url) as broker:
        queue = bee.Queue(broker, QUEUE, Work)
        async with bee.Worker(broker, QUEUE, Work, handle, poll=5).working():
            await becomes(lambda: waiting_at(server) == 1, "it does not wait")
            with at_most(4):
                await queue.send_many(map(Work, range(500)))
                await becomes(lambda: len(done) == 500, "not all were done", 4)

    assert sorted(done) == list(range(500))


@pytest.mark.parametrize(
    "options",
    [
        {"lease": 2.0},  # a lease counts from when it was asked for
        {"policy": bee.Policy(on_stall=bee.Archive())},  # none is to end because nobody looked
    ],
    ids=["short lease", "frail"],
)
async def test_who_would_rather_be_sure_waits_first(
    server: RedisServer, counting: type[Counting], options: dict[str, Any]
) -> None:
    async with counting(server.url) as broker:
        worker = bee.Worker(broker, QUEUE, Work, nothing, **options)
        async with worker.working():
            await becomes(lambda: waiting_at(server) == 1, "it does not wait")
            await bee.Queue(broker, QUEUE, Work).send(Work(1))
            await becomes(lambda: worker.health().settled == 1, "it was not done")

    assert 0 == counting.orders


async def test_a_worker_that_stops_ends_its_order_and_loses_nothing(server: RedisServer) -> None:
    """Each job is sent in the moment in which its worker stops: it is done, or as good as new."""
    async with RedisBroker(server.url) as sender:
        queue = bee.Queue(sender, QUEUE, Work)
        for number in range(60):
            async with RedisBroker(server.url) as broker:
                worker = bee.Worker(broker, QUEUE, Work, nothing, poll=5, observers=())
                running = asyncio.create_task(worker.run())
                await becomes(lambda: waiting_at(server) == 1, "it does not wait")
                sending = asyncio.create_task(queue.send(Work(number)))
                for _ in range(number % 12):
                    await asyncio.sleep(0)
                worker.stop()
                with at_most(3):
                    await running
                ticket = await sending
            stats = await sender.stats(QUEUE)
            assert 0 == stats.leased, f"round {number}"
            if stats.ready:
                (taken,) = await lease(sender)
                assert ticket.id == taken.receipt.id
                assert 0 == taken.counters.stalls
                await sender.cancel(QUEUE, [ticket.id], to=bee.Delete())


@pytest.mark.parametrize(
    "kind", [Work, type("Frail", (Work,), {}, policy=bee.Policy(on_stall=bee.Archive()))]
)
async def test_a_class_that_one_stall_ends_is_known_before_its_first_job(
    server: RedisServer, counting: type[Counting], kind: type[Work]
) -> None:
    async with (
        counting(server.url) as broker,
        bee.Worker(broker, QUEUE, kind, nothing).working(),
    ):
        await becomes(lambda: waiting_at(server) == 1, "it does not wait")

    assert (counting.orders > 0) == (kind is Work)


async def test_none_stands_while_a_job_runs(server: RedisServer, counting: type[Counting]) -> None:
    """It may block the event loop, and nobody would take what an order brings."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(job: Work) -> None:
        begun.set()
        await go_on.wait()

    async with counting(server.url) as broker:
        worker = bee.Worker(broker, QUEUE, Work, handle, poll=0.1)
        async with worker.working():
            await bee.Queue(broker, QUEUE, Work).send(Work(1))
            await begun.wait()
            await asyncio.sleep(0.3)  # what stood before is over
            before = counting.orders
            await asyncio.sleep(0.5)
            assert before == counting.orders
            go_on.set()
            await becomes(lambda: counting.orders > before, "none stands though nothing runs")


class Audited(RedisBroker):
    """Its leases are looked at."""

    seen = 0

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        leases = await super().lease(queue, **options)
        type(self).seen += len(leases)
        return leases


async def test_a_class_that_has_its_own_lease_is_not_passed_by(server: RedisServer) -> None:
    async with Audited(server.url) as broker:
        worker = bee.Worker(broker, QUEUE, Work, nothing)
        async with worker.working():
            for number in range(1, 4):
                await becomes(lambda: waiting_at(server) == 1, "it does not wait")
                await bee.Queue(broker, QUEUE, Work).send(Work(number))
                await becomes(lambda: worker.health().settled == number, "not done")  # noqa: B023

    assert 3 == Audited.seen


async def test_a_worker_learns_from_orders_how_large_messages_are(server: RedisServer) -> None:
    class Large(bee.Job):
        text: str

    async def handle(job: Large) -> None:
        pass

    async with RedisBroker(server.url) as broker:
        worker = bee.Worker(broker, QUEUE, Large, handle, concurrency=1000)
        async with worker.working():
            await becomes(lambda: waiting_at(server) == 1, "it does not wait")
            before = worker._held.room()
            await bee.Queue(broker, QUEUE, Large).send(Large("x" * 250_000))
            await becomes(lambda: worker.health().settled == 1, "it was not done")

            assert worker._held.room() < 40 < before


class Unwilling(MemoryBroker):
    """An order of it cannot be had."""

    def order(self, queue: str, **_: Any) -> Order:
        raise BrokerUnavailable("not now")

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        return await super().lease(queue, **options)


async def test_a_broker_that_takes_no_orders_does_not_end_its_worker() -> None:
    events: list[bee.Event] = []
    async with Unwilling() as broker:
        worker = bee.Worker(broker, QUEUE, Work, nothing, poll=0.05, observers=[events.append])
        async with worker.working():
            await asyncio.sleep(0.5)
            await bee.Queue(broker, QUEUE, Work).send(Work(1))
            await becomes(lambda: worker.health().settled == 1, "it was not done")

    # It says so once: that leases work does not mean that orders do.
    assert ["wait"] == [one.verb for one in events if isinstance(one, BrokerTrouble)]


async def test_a_worker_whose_connections_are_closed_stands_there_again(own: RedisServer) -> None:
    done: list[int] = []

    async def handle(job: Work) -> None:
        done.append(job.number)

    async with (
        RedisBroker(own.url, deadline=1) as broker,
        bee.Worker(broker, QUEUE, Work, handle, observers=()).working(),
    ):
        await becomes(lambda: waiting_at(own) == 1, "it does not wait")
        own.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await becomes(lambda: waiting_at(own) == 1, "it does not wait again")
        await again(lambda: bee.Queue(broker, QUEUE, Work).send(Work(1)))
        await becomes(lambda: done == [1], "it was not done")


class Hasty(MemoryBroker):
    """Its orders come back at once, with nothing."""

    asked = 0

    def order(self, queue: str, **_: Any) -> Order:
        type(self).asked += 1
        return Empty()


class Empty:
    async def leases(self) -> Sequence[Lease]:
        return []

    def recall(self) -> None:
        pass


async def test_orders_that_are_of_no_use_do_not_keep_a_worker_busy() -> None:
    async with Hasty() as broker, bee.Worker(broker, QUEUE, Work, nothing, poll=0.2).working():
        begun = time.monotonic()
        await asyncio.sleep(1)
        took = time.monotonic() - begun

    assert Hasty.asked <= 2 + took / 0.2
