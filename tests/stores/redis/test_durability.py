"""How sure a send is: the server's word, its disk's, its replicas'. A shortfall may be repeated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bee_core import connect
from bee_core.broker import Store
from bee_core.errors import BrokerMisconfigured, IdTaken, OutcomeUnknown
from bee_core.message import Draft, Reject, Sent
from tests.servers import RedisServer, free_port, valkey_binary

from .support import QUEUE, becomes, drained, ids, lease, send


@pytest.fixture
def with_disk() -> Iterator[RedisServer]:
    server = RedisServer(valkey_binary(), "--appendonly", "yes", "--appendfsync", "everysec")
    yield server
    server.stop()


@pytest.fixture
def master() -> Iterator[RedisServer]:
    server = RedisServer(valkey_binary(), "--repl-diskless-sync-delay", "0", port=free_port())
    yield server
    server.stop()


@pytest.fixture
def replica() -> Iterator[RedisServer]:
    """A server that is not anybody's replica yet."""
    server = RedisServer(valkey_binary(), port=free_port())
    yield server
    server.stop()


def follow(replica: RedisServer, master: RedisServer) -> None:
    replica.ask("REPLICAOF", "127.0.0.1", master.port)


async def follows(replica: RedisServer) -> None:
    def up() -> bool:
        return bool(replica.ask("INFO", "replication").get("master_link_status") == "up")

    await becomes(up, "the replica does not follow")


async def test_a_send_can_wait_for_the_disk(with_disk: RedisServer) -> None:
    async with connect(with_disk.url + "?fsync=1") as broker:
        assert [Sent.CREATED] * 2 == await send(broker, "a", "b")
        assert [Sent.KEPT] == await send(broker, "a")

        with pytest.raises(IdTaken):
            await broker.send(QUEUE, [Draft("a", b"", if_taken=Reject())])
        assert ["a", "b"] == ids(await lease(broker))


async def test_what_was_confirmed_by_the_disk_survives_the_server(with_disk: RedisServer) -> None:
    server = RedisServer(valkey_binary(), "--appendonly", "yes", keep=True)
    try:
        async with connect(server.url + "?fsync=1") as broker:
            await send(broker, *map(str, range(100)))
            server.kill()
            server.start()
            assert list(map(str, range(100))) == await drained(broker)
    finally:
        server.stop()


async def test_a_server_without_a_file_is_refused_before_anything_is_stored(
    server: RedisServer,
) -> None:
    async with connect(server.url + "?fsync=1") as broker:
        with pytest.raises(BrokerMisconfigured, match="CONFIG SET appendonly yes"):
            await send(broker, "a")

    assert 0 == server.ask("DBSIZE")


async def test_a_file_that_is_switched_off_later_makes_the_outcome_unknown(
    with_disk: RedisServer,
) -> None:
    async with connect(with_disk.url + "?fsync=1") as broker:
        await send(broker, "a")
        with_disk.ask("CONFIG", "SET", "appendonly", "no")

        with pytest.raises(OutcomeUnknown, match="stored, but not confirmed by WAITAOF"):
            await send(broker, "b")

        with_disk.ask("CONFIG", "SET", "appendonly", "yes")
        assert [Sent.KEPT] == await send(broker, "b")


async def test_redis_before_7_2_cannot_confirm_and_says_so_before_anything_is_stored(
    redis7_binary: str,
) -> None:
    server = RedisServer(redis7_binary, "--appendonly", "yes")
    try:
        if tuple(map(int, server.ask("INFO")["redis_version"].split(".")[:2])) >= (7, 2):
            pytest.skip("this redis-server knows WAITAOF")
        async with connect(server.url + "?fsync=1") as broker:
            with pytest.raises(BrokerMisconfigured, match="fsync=1 needs WAITAOF"):
                await send(broker, "a")
        assert 0 == server.ask("DBSIZE")

        async with connect(server.url + "?fsync=1&check=0") as broker:
            with pytest.raises(OutcomeUnknown, match="stored, but not confirmed"):
                await send(broker, "a")
    finally:
        server.stop()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_send_can_wait_for_replicas(
    master: RedisServer, replica: RedisServer, protocol: int
) -> None:
    follow(replica, master)
    await follows(replica)

    async with connect(master.url + f"?replicas=1&protocol={protocol}") as broker:
        assert [Sent.CREATED] == await send(broker, "a")

    assert 1 == replica.ask("HLEN", "bee:{q}:msg")


async def test_a_missing_replica_makes_the_outcome_unknown_and_the_send_may_be_repeated(
    master: RedisServer, replica: RedisServer
) -> None:
    async with connect(master.url + "?replicas=1&deadline=0.5") as broker:
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="safe to send again"):
                await send(broker, "a")
        follow(replica, master)
        await follows(replica)

        assert [Sent.KEPT] == await send(broker, "a")

    assert 1 == replica.ask("HLEN", "bee:{q}:msg")


async def test_a_replica_that_lags_confirms_nothing(
    master: RedisServer, replica: RedisServer
) -> None:
    """Also not a repeated send over a fresh connection, which writes nothing new."""
    follow(replica, master)
    await follows(replica)
    async with connect(master.url + "?replicas=1&deadline=0.5") as broker:
        await send(broker, "first")
        with replica.frozen():
            with pytest.raises(OutcomeUnknown):
                await send(broker, "a")
            async with broker.clone() as other:
                with pytest.raises(OutcomeUnknown):
                    await send(other, "a")

        assert [Sent.KEPT] == await send(broker, "a")


async def test_what_is_said_to_be_stored_is_stored_though_the_clock_was_set_back(
    master: RedisServer,
) -> None:
    async with connect(master.url + "?replicas=1&deadline=0.5") as broker:
        ahead = 1_000_000 * (int(master.ask("TIME")[0]) + 86_400)
        master.ask("HSET", f"bee:{{{QUEUE}}}:head", "number", ahead)

        with pytest.raises(OutcomeUnknown, match="stored"):
            await send(broker, "a")

        assert ["a"] == [
            one.receipt.id for one in await broker.lease(QUEUE, limit=9, duration=60, holder="me")
        ]


async def test_a_taken_id_is_a_taken_id_whoever_confirms(master: RedisServer) -> None:
    async with connect(master.url) as broker:
        await send(broker, "a")

    async with connect(master.url + "?replicas=1&deadline=0.5") as strict:
        with pytest.raises(IdTaken):
            await strict.send(QUEUE, [Draft("a", b"", if_taken=Reject())])


async def test_disk_and_replicas_can_be_asked_for_together(
    with_disk: RedisServer, replica: RedisServer
) -> None:
    broker: Store
    async with connect(with_disk.url + "?fsync=1&replicas=1&deadline=0.5") as broker:
        with pytest.raises(OutcomeUnknown, match=r"\(1, 0\) instead of \(1, 1\)"):
            await send(broker, "a")
