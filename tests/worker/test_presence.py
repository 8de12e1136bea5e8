"""Who works on a queue: workers say so, go on saying so, and say good-bye."""

from __future__ import annotations

import asyncio
import os
import socket

import bee_core as bee
from bee_core.events import AttemptLost, BrokerRecovered, BrokerTrouble
from bee_core.presence import EVERY, HOLDS, Presence, presence_of, written
from bee_core.testing import ManualClock, running
from bee_memory import MemoryBroker

from .support import LEASE, Work, at_work, begin, heard, hive_for, nothing


async def wait_for_ever(job: Work) -> None:
    await asyncio.Event().wait()


async def test_an_idle_worker_is_listed_with_what_it_knows() -> None:
    async with at_work(nothing, concurrency=7) as (bees, _):
        (worker,) = await bees.broker.workers("jobs")

        presence = presence_of(worker)
        assert presence is not None
        assert (socket.gethostname(), os.getpid(), 7, ("work",)) == (
            presence.host,
            presence.pid,
            presence.concurrency,
            presence.kinds,
        )
        assert (0, None) == (worker.leases, worker.leased_until)


async def test_what_it_holds_is_listed_too() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send_many([Work(), Work()])
        await bees.advance(1)

        (worker,) = await bees.broker.workers("jobs")

        assert 2 == worker.leases
        assert worker.since is not None
        assert worker.leased_until is not None
        assert worker.leased_until > worker.since


async def test_one_that_stops_is_gone_at_once_and_one_that_is_killed_after_a_while() -> None:
    async with at_work(nothing) as (bees, _):
        await bees.stop()
        stopped = await bees.broker.workers("jobs")
        await begin(bees)
        await bees.crash()
        killed = await bees.broker.workers("jobs")
        await bees.advance(HOLDS)

        assert ([], 1, []) == (
            list(stopped),
            len(killed),
            list(await bees.broker.workers("jobs")),
        )


async def test_a_worker_that_starts_again_on_the_same_host_is_another_one() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        await bees.crash()
        (first,) = await bees.broker.workers("jobs")
        await begin(bees)

        names = {worker.name: worker.leases for worker in await bees.broker.workers("jobs")}

        (second,) = names.keys() - {first.name}
        assert first.name.rpartition(":")[0] == second.rpartition(":")[0], "same host, same process"
        assert {first.name: 1, second: 0} == names


async def test_one_that_was_cut_off_learns_that_its_leases_are_lost() -> None:
    async with at_work(wait_for_ever) as (bees, jobs):
        await jobs.send(Work(), id="a")
        await bees.advance(1)
        bees.broker.go_down(bee.BrokerUnavailable("cut off"))
        await bees.advance(2 * LEASE)
        (taken,) = await bees.broker.inner.lease("jobs", limit=1, duration=1000, holder="another")
        bees.broker.come_back()
        await bees.advance(10)

        (lost,) = heard(bees, AttemptLost)
        stored = await bees.broker.get("jobs", "a")
        assert "a" == lost.id
        assert stored is not None
        assert ("another", 1) == (stored.holder, stored.counters.stalls)
        assert ["stalled"] == [one.reason for one in stored.history]
        assert lost.token < taken.receipt.token


async def test_that_it_cannot_announce_itself_is_told_once_and_harms_nobody() -> None:
    async with at_work(nothing) as (bees, jobs):
        bees.broker.fail("announce", bee.BrokerError("no right to"), times=3)
        await bees.advance(3 * EVERY)
        await jobs.send(Work(), id="a")
        await bees.advance(2 * EVERY)

        (trouble,) = heard(bees, BrokerTrouble)
        (over,) = heard(bees, BrokerRecovered)
        assert ("announce", "announce", ["a"]) == (trouble.verb, over.verb, list(bees.runs))


async def test_a_broker_that_is_away_does_not_keep_a_worker_from_stopping() -> None:
    clock = ManualClock()
    hive, _ = hive_for(nothing)
    async with running(hive, clock=clock) as bees:
        gate = bees.broker.gate("announce")
        bees.hive.stop()
        async with asyncio.timeout(10):
            await bees.stop()
        gate.open()


async def test_a_worker_of_very_many_kinds_does_not_name_them() -> None:
    many = Presence(host="h", pid=1, version="1", concurrency=1, kinds=("kind",) * 1000)
    async with MemoryBroker() as broker:
        await broker.announce("jobs", "ann", about=written(many), duration=60)

        (worker,) = await broker.workers("jobs")

    presence = presence_of(worker)
    assert presence is not None
    assert None is presence.kinds
