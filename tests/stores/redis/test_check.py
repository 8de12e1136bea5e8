"""What is wrong with a server is said when it is first used, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

import bee_redis
from bee_core import connect
from bee_core.broker import Store
from bee_core.errors import BrokerMisconfigured
from bee_core.message import Sent
from bee_redis import RedisBroker
from bee_redis.check import IN_SCRIPTS, parse_info, problems, version
from tests.servers import RedisCluster, RedisServer, free_port, valkey_binary

from .support import QUEUE, send

GOOD = {
    "redis_version": "7.0.15",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "cluster_enabled": "0",
    "aof_enabled": "1",
}


def test_a_good_server_has_no_problems() -> None:
    assert [] == problems(GOOD, cluster=False)
    assert [] == problems(GOOD | {"redis_version": "8.2.1"}, cluster=False, fsync=True)
    assert [] == problems(GOOD | {"cluster_enabled": "1"}, cluster=True)


def test_a_server_that_says_little_about_itself_is_given_the_benefit_of_the_doubt() -> None:
    assert [] == problems({"redis_version": "7.2.4"}, cluster=False, fsync=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"redis_version": "6.2.14"}, ["6.2.14", "Redis 7.0"]),
        ({"redis_version": "2.8"}, ["2.8", "Redis 7.0"]),
        ({"redis_version": "6.rc1"}, ["6.rc1", "Redis 7.0"]),
        ({"redis_version": ""}, ["Redis 7.0"]),
        ({"role": "slave"}, ["replica", "redis+sentinel://"]),
        (
            {"maxmemory_policy": "allkeys-lru"},
            ["CONFIG SET maxmemory-policy noeviction", "check=0"],
        ),
        ({"maxmemory_policy": "volatile-ttl"}, ["volatile-ttl"]),
        ({"cluster_enabled": "1"}, ["redis+cluster://"]),
    ],
)
def test_each_problem_is_named_with_its_remedy(change: dict[str, str], words: list[str]) -> None:
    (problem,) = problems(GOOD | change, cluster=False)

    assert all(word in problem for word in words), problem


def test_a_server_outside_a_cluster_is_not_one() -> None:
    (problem,) = problems(GOOD, cluster=True)

    assert "use redis://" in problem


def test_fsync_asks_more_of_a_server() -> None:
    (old,) = problems(GOOD, cluster=False, fsync=True)
    (off,) = problems(
        GOOD | {"redis_version": "7.2.0", "aof_enabled": "0"}, cluster=False, fsync=True
    )

    assert "7.0.15" in old
    assert "WAITAOF" in old
    assert "CONFIG SET appendonly yes" in off


def test_valkey_is_judged_by_its_own_version() -> None:
    valkey = GOOD | {"redis_version": "7.2.4", "valkey_version": "9.1.2"}

    assert [] == problems(valkey, cluster=False, fsync=True)


def test_versions_are_read_whatever_else_they_say() -> None:
    assert (7, 4) == version("7.4.0-rc1")
    assert (255, 255) == version("255.255.255")
    assert (8,) == version("8")
    assert () == version("unstable")


def test_the_answer_to_info_is_read_in_any_form() -> None:
    assert {"a": "1", "b": "x:y"} == parse_info(b"# Server\r\na:1\r\n\r\nb:x:y\r\n")
    assert {"a": "1"} == parse_info({"a": 1})


def test_every_command_of_the_scripts_is_among_the_rights_that_are_looked_at() -> None:
    folder = Path(bee_redis.__file__).parent / "lua"
    scripts = "".join(file.read_text() for file in folder.glob("*.lua"))
    words = set(re.findall(r"'([A-Z]{3,})'", scripts))

    assert words - {"LIMIT", "WITHSCORES", "WITHVALUES", "COUNT", "TIME"} == set(IN_SCRIPTS.split())


@pytest.fixture
def server(own: RedisServer) -> RedisServer:
    """Every test here ill-treats its server."""
    return own


@contextmanager
def refused(*words: str) -> Iterator[None]:
    with pytest.raises(BrokerMisconfigured) as refusal:
        yield
    assert all(word in str(refusal.value) for word in words), refusal.value


async def test_a_replica_is_refused(server: RedisServer, broker: Store) -> None:
    server.ask("REPLICAOF", "127.0.0.1", "1")

    with refused("this server is a replica: give the URL of its master"):
        await send(broker, "a")


async def test_a_refusal_is_repeated_until_the_server_is_mended(
    server: RedisServer, broker: Store
) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    for _ in range(2):
        with refused("allkeys-lru", "CONFIG SET maxmemory-policy noeviction"):
            await broker.lease(QUEUE, limit=1, duration=1, holder="w")

    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")

    assert [Sent.CREATED] == await send(broker, "a")


async def test_who_knows_better_can_do_without_the_check(server: RedisServer) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")

    async with connect(server.url + "?check=0") as broker:
        assert [Sent.CREATED] == await send(broker, "a")


async def test_one_node_of_a_cluster_is_not_taken_for_a_server(cluster: RedisCluster) -> None:
    async with connect(cluster.nodes[0].url) as broker:
        with refused("use redis+cluster://"):
            await broker.stats(QUEUE)

    async with connect(cluster.nodes[0].url + "?check=0") as broker:
        with refused("use redis+cluster://"):
            for number in range(9):  # at least one of these queues lives on another node
                await broker.stats(f"q{number}")


@pytest.mark.parametrize("parameters", ["", "?check=0"])
async def test_a_server_alone_is_not_taken_for_a_cluster(parameters: str) -> None:
    server = RedisServer(valkey_binary(), port=free_port())
    try:
        async with connect(f"redis+cluster://127.0.0.1:{server.port}{parameters}") as broker:
            with refused("use redis://"):
                await broker.stats(QUEUE)
    finally:
        server.stop()


async def test_every_node_of_a_cluster_is_looked_at(cluster: RedisCluster) -> None:
    cluster.nodes[2].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        async with connect(cluster.url) as broker:
            with refused("allkeys-lru"):
                await broker.stats(QUEUE)
    finally:
        cluster.nodes[2].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_the_rights_in_the_documentation_are_enough_in_a_cluster_and_each_is_named(
    cluster: RedisCluster,
) -> None:
    text = (Path(bee_redis.__file__).parents[1] / "docs/production/redis.md").read_text()
    (documented,) = re.findall(r"ACL SETUSER bee (.+)", text)
    (besides,) = re.findall(r"In a cluster it needs `(.+)` besides", text)
    url = cluster.url.replace("://", "://bee:secret@")
    try:
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", "bee", *documented.split(), besides)
        async with connect(url) as broker:
            assert [Sent.CREATED] == await send(broker, "a", queue="rights")
            await broker.drop("rights")

        for right in ("info", "eval", "cluster|slots"):
            for node in cluster.nodes:
                node.ask("ACL", "SETUSER", "bee", f"-{right}")
            async with connect(url) as broker:
                with refused("lacks a right", right):
                    await send(broker, "a", queue="rights")
            for node in cluster.nodes:
                node.ask("ACL", "SETUSER", "bee", f"+{right}")
    finally:
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "bee")


@pytest.fixture(params=["valkey", "redis"])
def guarded(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server with a password. The two kinds say in different words what one may not do."""
    is_redis = request.param == "redis"
    server = RedisServer(request.getfixturevalue("redis7_binary") if is_redis else valkey_binary())
    server.ask("ACL", "SETUSER", "default", "resetpass", ">hunter2")
    yield server
    server.stop()


def as_user(server: RedisServer, user: str, *rules: str, check: bool = True) -> RedisBroker:
    with redis.Redis(unix_socket_path=str(server.socket), password="hunter2") as admin:
        admin.execute_command("ACL", "SETUSER", user, "on", ">pw", *rules)
    return RedisBroker(server.url.replace("unix://", f"unix://{user}:pw@"), check=check)


async def test_a_database_that_does_not_exist_is_said_not_to(server: RedisServer) -> None:
    async with connect(server.url + "?db=99") as broker:
        with refused("DB index is out of range"):
            await broker.stats(QUEUE)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("who", ["", ":wrong@", "nobody:wrong@"])
async def test_a_wrong_password_is_said_to_be_one(
    guarded: RedisServer, who: str, protocol: int
) -> None:
    url = guarded.url.replace("unix://", f"unix://{who}") + f"?protocol={protocol}"
    async with connect(url) as broker:
        with refused("refuses these credentials"):
            await send(broker, "a")
        with refused("refuses these credentials"):
            await broker.wait(QUEUE, timeout=5)


async def test_a_user_with_all_that_is_needed_and_no_more_can_do_everything(
    guarded: RedisServer,
) -> None:
    rights = [f"+{command.lower()}" for command in IN_SCRIPTS.split()]
    more = (
        "eval",
        "evalsha",
        "info",
        "time",
        "type",
        "blpop",
        "sadd",
        "srem",
        "smembers",
    )
    rights += [f"+{command}" for command in more]

    async with as_user(guarded, "bee", "~bee:*", *rights) as broker:
        assert [Sent.CREATED] == await send(broker, "a")
        assert [QUEUE] == list(await broker.queues())
        await broker.wait(QUEUE, timeout=0.01)
        await broker.drop(QUEUE)


@pytest.mark.parametrize("command", ["hdel", "zadd", "unlink", "blpop", "sadd", "hrandfield"])
async def test_a_missing_right_is_named_before_anything_is_done(
    guarded: RedisServer, command: str
) -> None:
    async with as_user(guarded, "bee", "~bee:*", "+@all", f"-{command}") as broker:
        with refused(f"+{command}", "ACL SETUSER"):
            await send(broker, "a")


@pytest.mark.parametrize("command", ["info", "eval"])
async def test_a_right_that_the_check_itself_needs_is_named_too(
    guarded: RedisServer, command: str
) -> None:
    async with as_user(guarded, "bee", "~bee:*", "+@all", f"-{command}") as broker:
        with refused(command, "lacks a right"):
            await send(broker, "a")


async def test_a_user_of_other_keys_is_told_which_keys_are_meant(guarded: RedisServer) -> None:
    async with as_user(guarded, "bee", "~other:*", "+@all") as broker:
        with refused("~bee:*"):
            await send(broker, "a")


@pytest.mark.parametrize("right", ["hsetnx", "zadd", "hset"])
async def test_a_right_that_is_missing_later_is_a_matter_of_rights(
    guarded: RedisServer, right: str
) -> None:
    async with as_user(guarded, "bee", "~bee:*", "+@all", f"-{right}", check=False) as broker:
        with refused("lacks a right"):
            await send(broker, "a")
        assert not await broker.get(QUEUE, "a")
