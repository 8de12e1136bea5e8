"""Servers that go, refuse and fill up: nothing is lost, nothing is done twice, and it passes."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from bee_core.disposition import Delete
from bee_core.errors import BrokerError, BrokerFull, BrokerMisconfigured, BrokerUnavailable
from bee_core.message import Draft, Sent, Settlement
from bee_pg import PgBroker
from tests.servers import PgServer, short_directory

from .support import (
    PASSING,
    QUEUE,
    again,
    ask,
    at_most,
    becomes,
    brokers,
    connected,
    drained,
    ids,
    lease,
    outcome,
    send,
    settle,
)

KILLS = 12


async def settled_under_fire(url: str, server: PgServer, strike: object) -> None:
    """Everything that was sent is settled once, however often the server fails meanwhile."""
    assert callable(strike)
    wanted = [f"m{n:03}" for n in range(300)]
    applied: Counter[str] = Counter()
    unsure: set[str] = set()
    over = asyncio.Event()

    async def produce(broker: PgBroker) -> None:
        """Before anything is taken: what is sent again after it was settled is another message."""
        for start in range(0, len(wanted), 10):
            await again(partial(send, broker, *wanted[start : start + 10]))
        await again(partial(broker.resume, QUEUE))

    async def consume(broker: PgBroker) -> None:
        while not over.is_set():
            try:
                leases = await lease(broker, 5, duration=1.0)
            except PASSING:
                await asyncio.sleep(0.01)
                continue
            if not leases:
                await asyncio.sleep(0.01)
            for held in leases:
                sure = True
                while True:
                    try:
                        lost = await settle(broker, [held])
                    except PASSING as error:
                        sure = sure and isinstance(error, BrokerUnavailable)
                        await asyncio.sleep(0.01)
                        continue
                    if not lost:
                        applied[held.receipt.id] += 1
                    elif not sure:
                        unsure.add(held.receipt.id)
                    break
            if len(applied.keys() | unsure) == len(wanted):
                over.set()

    async with brokers(url, 3, deadline=2) as some:
        await some[0].pause(QUEUE)
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(produce(some[0]))
            for broker in some[1:]:
                tasks.create_task(consume(broker))
            while not over.is_set():
                await asyncio.to_thread(strike)
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), random.uniform(0.02, 0.2))

        assert set(wanted) == applied.keys() | unsure
        assert {1} == set(applied.values())
        assert [] == await drained(some[0])


async def test_terminated_connections_lose_nothing_and_settle_nothing_twice(
    pg: PgServer, url: str
) -> None:
    def strike() -> None:
        ask(
            url,
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name = 'bee'",
        )

    await settled_under_fire(url, pg, strike)


async def test_a_server_stopped_at_once_and_started_again_loses_nothing() -> None:
    server = PgServer(18, "synchronous_commit=on", keep=True)
    left = iter(range(3))
    try:

        def strike() -> None:
            if next(left, None) is not None:
                server.kill()
                server.start()

        await settled_under_fire(server.database(), server, strike)
    finally:
        server.stop()


async def test_a_broker_finds_connections_that_ended_meanwhile_before_it_uses_them(
    url: str, broker: PgBroker
) -> None:
    for turn in range(KILLS):
        await asyncio.gather(*(broker.stats(QUEUE) for _ in range(5)))
        ask(
            url,
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = current_database() and application_name = 'bee'",
        )
        assert [Sent.CREATED] == await send(broker, str(turn))


async def test_too_many_connections_is_trouble_that_passes() -> None:
    server = PgServer(18, "max_connections=8", "superuser_reserved_connections=3")
    try:
        server.ask("create role worker login superuser")
        server.ask("create role plain login")
        url = server.database()
        plain = url.replace("postgres@", "plain@")
        async with brokers(url, 1) as (broker,):
            ask(url, "grant usage on schema bee to plain")
            ask(url, "grant all on all tables in schema bee to plain")
            ask(url, "grant usage on all sequences in schema bee to plain")
            await broker.aclose()
        async with PgBroker(plain, pool_size=20, deadline=2) as crowd:
            await crowd.stats(QUEUE)
            ends = await asyncio.gather(*(outcome(send(crowd, str(n))) for n in range(40)))
            stored = sum(not isinstance(end, BrokerError) for end in ends)
            refused = [end for end in ends if isinstance(end, BrokerError)]
            assert refused
            assert {BrokerUnavailable} == set(map(type, refused))
            assert stored == (await crowd.stats(QUEUE)).live
            assert stored >= 1
    finally:
        server.stop()


async def test_a_read_only_database_is_trouble_that_passes(url: str, broker: PgBroker) -> None:
    await send(broker, "a")
    name = broker._parameters["dbname"]
    ask(url, f"alter database {name} set default_transaction_read_only = on")
    ask(
        url,
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and application_name = 'bee'",
    )

    with pytest.raises(BrokerUnavailable, match="read-only"):
        await lease(broker)

    writing = f"{url}&options=-cdefault_transaction_read_only%3Doff"
    ask(writing, f"alter database {name} reset default_transaction_read_only")
    assert ["a"] == ids(await lease(broker))


async def test_a_server_made_read_only_under_way_is_trouble_that_passes(own: PgServer) -> None:
    url = own.database()
    async with brokers(url, 1) as (broker,):
        await send(broker, "a")
        own.ask("alter system set default_transaction_read_only = on")
        own.ask("select pg_reload_conf()")
        await becomes(
            lambda: own.ask("show default_transaction_read_only") == [("on",)], "it is not"
        )
        with pytest.raises(BrokerUnavailable, match="read-only"):
            await again_until_refused(broker)
        with psycopg.connect(own.url, autocommit=True) as operator:
            operator.execute("set default_transaction_read_only = off")
            operator.execute("alter system reset default_transaction_read_only")
            operator.execute("select pg_reload_conf()")
        assert ["a"] == [id for id in ids(await again(lambda: lease(broker))) if id == "a"]


async def again_until_refused(broker: PgBroker) -> None:
    """Sessions hear of new settings one after the other."""
    for turn in range(200):
        await send(broker, f"late {turn}")
        await asyncio.sleep(0.01)


async def test_tables_that_are_gone_are_missed_by_name(url: str, broker: PgBroker) -> None:
    await send(broker, "a")
    ask(url, "drop schema bee cascade")

    with pytest.raises(BrokerMisconfigured, match="bee db apply"):
        await lease(broker)


async def test_vacuum_full_and_reindex_lose_nothing(url: str, broker: PgBroker) -> None:
    wanted = [f"m{n:03}" for n in range(200)]
    await send(broker, *wanted)
    over = asyncio.Event()

    async def maintain() -> None:
        while not over.is_set():
            for work in ("vacuum full bee.message", "reindex schema bee"):
                with suppress(psycopg.errors.DeadlockDetected):  # it was the one to give way
                    await asyncio.to_thread(ask, url, work)

    maintaining = asyncio.create_task(maintain())
    came: list[str] = []
    while len(came) < len(wanted):
        leases = await again(lambda: lease(broker, 5))
        came += ids(leases)
        assert set() == await again(partial(settle, broker, leases))
    over.set()
    await maintaining
    assert wanted == sorted(came)


@pytest.fixture
def small() -> Iterator[tuple[str, Path]]:
    """A database on a disk that is nearly full. The log is elsewhere: without it, all stops."""
    directory = short_directory()
    size = ["-o", "size=16m,mode=0777"]
    mounted = subprocess.run(["mount", "-t", "tmpfs", *size, "none", directory])
    if mounted.returncode:
        pytest.skip("a file system of limited size needs root")
    try:
        server = PgServer(18, "autovacuum=off")
        try:
            shutil.chown(directory, "nobody")
            server.ask(f"create tablespace small location '{directory}'")
            server.ask("create database small tablespace small")
            yield server.url.replace("/postgres?", "/small?"), directory
        finally:
            server.stop()
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
        directory.rmdir()


def make_room(directory: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=32m", directory], check=True)


async def test_a_full_disk_refuses_sends_and_lets_work_go_on(small: tuple[str, Path]) -> None:
    url, directory = small
    async with brokers(url, 1, deadline=10) as (broker,):
        await send(broker, *(f"m{n}" for n in range(50)))
        leases = await lease(broker, 20)
        body = os.urandom(400_000)
        with pytest.raises(BrokerFull):
            for number in range(1000):
                await broker.send("big", [Draft(str(number), body)])
        before = (await broker.stats("big")).live

        with pytest.raises(BrokerFull):
            await broker.send("big", [Draft(f"more {n}", body) for n in range(20)])

        assert before == (await broker.stats("big")).live
        settlements = [Settlement(held.receipt, Delete()) for held in leases]
        assert set() == await again(lambda: broker.settle(QUEUE, settlements))
        assert 30 == (await broker.stats(QUEUE)).ready
        assert 30 == len(await again(lambda: lease(broker)))

        make_room(directory)
        assert [Sent.CREATED] == list(await broker.send("big", [Draft("fits again", body)]))


async def test_a_server_that_is_gone_is_unavailable_and_then_back(own: PgServer) -> None:
    url = own.database()
    async with brokers(url, 1, deadline=2) as (broker,):
        await send(broker, "a")
        waiting = asyncio.create_task(outcome(broker.wait("other", timeout=60)))
        await becomes(lambda: broker._ears().is_awaited("other"), "it does not wait")
        own.kill()

        with at_most(3), pytest.raises(PASSING):
            await lease(broker)
        assert isinstance(await asyncio.wait_for(waiting, 5), BrokerError)
        with at_most(3), pytest.raises(BrokerUnavailable, match="cannot connect"):
            await lease(broker)

        own.start()
        with at_most(5):
            await again(lambda: send(broker, "b"))
        assert connected(url) <= 2
