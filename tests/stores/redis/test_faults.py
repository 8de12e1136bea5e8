"""What a server may do to its clients, and what becomes of their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.errors import (
    BrokerError,
    BrokerFull,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_core.message import Draft, Note, Sent, Settlement
from bee_core.stored import State
from bee_core.testing.conformance.guards import verbs
from bee_redis import RedisBroker
from tests.servers import RedisServer, free_port, short_directory, valkey_binary

from .support import (
    PASSING,
    QUEUE,
    again,
    becomes,
    brokers,
    calls,
    drained,
    ids,
    lease,
    lease_one,
    outcome,
    send,
    settle,
    waiting_at,
)


@pytest.fixture
def server(own: RedisServer) -> RedisServer:
    """Every test here ill-treats its server."""
    return own


async def test_scripts_may_be_flushed_at_any_time(server: RedisServer, broker: RedisBroker) -> None:
    for number in range(20):
        server.ask("SCRIPT", "FLUSH")
        assert [Sent.CREATED] == await send(broker, str(number))
        server.ask("SCRIPT", "FLUSH")
        held = await lease_one(broker)
        server.ask("SCRIPT", "FLUSH")
        assert set() == await settle(broker, [held])

    for verb, call in verbs(broker, QUEUE).items():
        server.ask("SCRIPT", "FLUSH")
        assert not isinstance(await outcome(call()), BrokerError), verb


async def test_a_script_is_sent_in_full_once_only(server: RedisServer, broker: RedisBroker) -> None:
    for number in range(10):
        await send(broker, str(number))

    # In full: what looks at the server, the send, and what notes that the queue is listed.
    assert {"eval": 3, "evalsha": 11} == calls(server, "eval", "evalsha")


@pytest.fixture(params=["unix, RESP2", "unix, RESP3", "tcp, RESP2", "tcp, RESP3"])
async def talker(request: pytest.FixtureRequest) -> AsyncIterator[tuple[RedisServer, RedisBroker]]:
    way, protocol = request.param.split(", RESP")
    server = RedisServer(valkey_binary(), port=free_port() if way == "tcp" else 0)
    try:
        async with RedisBroker(f"{server.url}?protocol={protocol}") as broker:
            yield server, broker
    finally:
        server.stop()


async def test_connections_killed_while_idle_are_replaced_unnoticed(
    talker: tuple[RedisServer, RedisBroker],
) -> None:
    server, broker = talker
    await asyncio.gather(*(broker.stats(QUEUE) for _ in range(10)))

    for number in range(5):
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await asyncio.sleep(0.01)  # the news has to arrive

        assert [Sent.CREATED] == await send(broker, str(number))


async def test_connections_killed_during_calls_lose_nothing(
    talker: tuple[RedisServer, RedisBroker],
) -> None:
    server, broker = talker
    sent = [f"m{number}" for number in range(100)]

    async def kill() -> int:
        killed = 0
        async with redis.asyncio.Redis(unix_socket_path=str(server.socket)) as admin:
            for _ in range(15):
                killed += await admin.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.01)
        return killed

    async def send_one(id: str) -> None:
        await again(lambda: send(broker, id))

    killer = asyncio.create_task(kill())
    for start in range(0, len(sent), 10):
        await asyncio.gather(*(send_one(id) for id in sent[start : start + 10]))
    waiting = await outcome(broker.wait(QUEUE, timeout=0.05))

    assert await killer > 10
    assert waiting is None or isinstance(waiting, PASSING)
    assert sorted(sent) == sorted(await drained(broker))


async def test_a_server_that_is_gone_is_unavailable_until_it_is_back(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    server.kill()
    server.directory.mkdir(exist_ok=True)

    for _ in range(3):
        assert isinstance(await outcome(lease(broker)), PASSING)
    with pytest.raises(BrokerUnavailable, match="cannot reach the server"):
        await send(broker, "b")

    server.start()
    assert [Sent.CREATED] == await again(lambda: send(broker, "b"))


async def test_a_server_that_becomes_a_replica_is_unavailable_until_it_is_a_master_again(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a", "b")
    held, other = await lease(broker)
    waiting = asyncio.create_task(outcome(broker.wait(QUEUE, timeout=20)))
    await becomes(lambda: waiting_at(server) == 1, "nobody waits")

    server.ask("REPLICAOF", "127.0.0.1", "1")
    for verb, call in verbs(broker, QUEUE).items():
        if verb not in ("wait", "stats", "get", "workers"):  # which only read
            assert isinstance(await outcome(call()), BrokerUnavailable), verb
    assert isinstance(await asyncio.wait_for(waiting, 5), BrokerUnavailable)

    server.ask("REPLICAOF", "NO", "ONE")
    assert set() == await settle(broker, [held])
    assert set() == await settle(broker, [other], Reschedule())
    assert ["b"] == await drained(broker)


async def test_a_server_that_is_loading_its_data_is_unavailable() -> None:
    slowly = ("--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
    server = RedisServer(valkey_binary(), *slowly)
    try:
        server.ask("DEBUG", "POPULATE", 2000)
        async with RedisBroker(server.url) as broker:
            await send(broker, "a")
            reload = asyncio.create_task(asyncio.to_thread(server.ask, "DEBUG", "RELOAD"))
            ends = set()
            while not reload.done():
                ends.add(type(await outcome(broker.stats(QUEUE))))
            await reload

            assert BrokerUnavailable in ends
            assert OutcomeUnknown not in ends
            assert ["a"] == await drained(broker)
    finally:
        server.stop()


@pytest.fixture
async def full(server: RedisServer, broker: RedisBroker) -> RedisBroker:
    """A broker whose server has no room for another byte; 20 messages are in it, 5 are held."""
    await send(broker, *(f"m{n:02}" for n in range(20)))
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    assert int(server.ask("INFO", "memory")["used_memory"]) > 1_000_000
    return broker


async def test_a_full_server_takes_no_more_and_says_so(full: RedisBroker) -> None:
    for queue in (QUEUE, "another"):
        with pytest.raises(BrokerFull, match="maxmemory"):
            await send(full, "more", queue=queue)

    assert 20 == (await full.stats(QUEUE)).ready


async def test_a_full_server_adopts_nothing_and_expels(full: RedisBroker) -> None:
    page = await full.scan(QUEUE, State.READY)

    for queue in (QUEUE, "another"):
        with pytest.raises(BrokerFull, match="maxmemory"):
            await full.adopt(queue, page.items, beyond=2**52)
    assert [] == await full.expel(QUEUE, page.items)

    stats = await full.stats(QUEUE)
    assert 0 == stats.live
    assert 2**52 > stats.token


async def test_a_full_server_is_worked_and_drained(server: RedisServer, full: RedisBroker) -> None:
    server.ask("SCRIPT", "FLUSH")
    held = await lease(full, 10)
    a, b, c, d, *rest = held

    assert set() == await full.extend(QUEUE, [one.receipt for one in held], duration=60)
    note = Note("failed", "x" * 1000)
    endings = [Settlement(a.receipt, Archive(), note), Settlement(b.receipt, Reschedule(60.0))]
    endings += [Settlement(c.receipt, Reschedule(front=True))]
    endings += [Settlement(d.receipt, Delete(), then=[Draft("follow-up", b"body")])]
    assert set() == await full.settle(QUEUE, endings)
    assert set() == await settle(full, rest)
    assert set() == await full.cancel(QUEUE, ["m19"], to=Archive())
    assert set() == await full.restore(QUEUE, ["m00"])
    await full.pause(QUEUE)
    await full.resume(QUEUE)
    await full.wait(QUEUE, timeout=0.01)
    assert {"m01"} == set(ids((await full.scan(QUEUE, State.DELAYED)).items))
    assert set() == await full.cancel(QUEUE, ["m01"], to=Delete())

    left = sorted([*(f"m{n}" for n in range(10, 19)), "m00", "m02", "follow-up"])
    assert left == sorted(await drained(full))


async def test_a_queue_that_a_full_server_pauses_is_not_said_to_be_refused(
    server: RedisServer, full: RedisBroker
) -> None:
    with pytest.raises(OutcomeUnknown, match="done in part"):
        await full.pause("fresh")
    assert (await full.stats("fresh")).paused

    server.ask("CONFIG", "SET", "maxmemory", "0")
    await full.pause("fresh")

    assert ["fresh", QUEUE] == sorted(await full.queues())


async def test_a_server_that_had_no_room_takes_again_when_it_has(
    server: RedisServer, full: RedisBroker
) -> None:
    with pytest.raises(BrokerFull):
        await send(full, "more")

    server.ask("CONFIG", "SET", "maxmemory", "0")

    assert [Sent.CREATED] == await send(full, "more")


async def test_a_server_with_no_connection_to_spare_is_unavailable(server: RedisServer) -> None:
    async with brokers(server.url, 2) as (first, second):
        await first.stats(QUEUE)
        server.ask("CONFIG", "SET", "maxclients", 1)

        with pytest.raises(BrokerUnavailable):
            await second.stats(QUEUE)
        assert [Sent.CREATED] == await send(first, "a")

        await first.aclose()
        assert ["a"] == ids(await again(lambda: lease(second)))


async def test_another_clients_endless_script_is_trouble_that_passes(
    server: RedisServer, broker: RedisBroker
) -> None:
    await send(broker, "a")
    server.ask("CONFIG", "SET", "busy-reply-threshold", 10)
    endless = asyncio.create_task(
        asyncio.to_thread(outcome_of, server, "EVAL", "while true do end", 0)
    )
    await asyncio.sleep(0.03)  # until the server gives answers again, which takes 10 ms

    with pytest.raises(BrokerUnavailable, match="BUSY"):
        await again_busy(broker)

    server.ask("SCRIPT", "KILL")
    await endless
    assert ["a"] == ids(await again(lambda: lease(broker)))


def outcome_of(server: RedisServer, *command: str | int) -> object:
    try:
        return server.ask(*command)
    except redis.RedisError as error:
        return error


async def again_busy(broker: RedisBroker) -> None:
    for _ in range(100):
        await lease(broker)


async def test_a_disk_that_fails_is_trouble_that_passes() -> None:
    data = short_directory()
    server = RedisServer(valkey_binary(), "--dir", str(data), "--save", "3600 1")
    try:
        async with RedisBroker(server.url) as broker:
            await send(broker, "a")
            data.rmdir()
            server.ask("BGSAVE")
            failed = "rdb_last_bgsave_status:err"
            await becomes(lambda: failed in info(server), "the server could save", 5)

            with pytest.raises(BrokerUnavailable, match="MISCONF"):
                await send(broker, "b")

            server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
            assert [Sent.CREATED] == await send(broker, "b")
    finally:
        server.stop()


def info(server: RedisServer) -> str:
    return "".join(f"{name}:{value}\n" for name, value in server.ask("INFO").items())
