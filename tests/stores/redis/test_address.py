"""Redis URLs: what each part means, what is refused, and what is never shown."""

from __future__ import annotations

import socket
from importlib.metadata import entry_points
from typing import Any

import pytest

from bee_core import connect
from bee_core.errors import BrokerUnavailable, InvalidInput, InvalidOption
from bee_core.url import Url
from bee_redis import RedisBroker
from bee_redis.address import SCHEMES, Links, links
from bee_redis.cluster import ClusterLink
from bee_redis.connection import PoolLink
from bee_redis.sentinel import SentinelLink
from tests.servers import free_port

SECRET = "s3cr/et@:#"
QUOTED = "s3cr%2Fet%40%3A%23"


def read(url: str) -> Links:
    address = Url(url)
    found = links(address, deadline=5.0)
    address.finish()
    return found


def options(url: str) -> dict[str, Any]:
    """What the connections of one server are made with."""
    link = read(url).make(3)
    assert isinstance(link, PoolLink)
    made: dict[str, Any] = link._pool.connection_kwargs
    return made


@pytest.mark.parametrize(
    ("url", "host", "port", "db"),
    [
        ("redis://", "localhost", 6379, 0),
        ("redis://example.org", "example.org", 6379, 0),
        ("redis://example.org/", "example.org", 6379, 0),
        ("redis://example.org:7000/3", "example.org", 7000, 3),
        ("redis://example.org?db=4", "example.org", 6379, 4),
        ("redis://:7000", "localhost", 7000, 0),
        ("redis://127.0.0.1:1", "127.0.0.1", 1, 0),
        ("redis://[::1]", "::1", 6379, 0),
        ("redis://[2001:db8::1]:65535/1", "2001:db8::1", 65535, 1),
        ("redis://u:p@[::1]:7000", "::1", 7000, 0),
        ("rediss://example.org", "example.org", 6379, 0),
    ],
)
async def test_a_url_says_where_the_server_is(url: str, host: str, port: int, db: int) -> None:
    made = options(url)

    assert (host, port, db) == (made["host"], made["port"], made["db"])


@pytest.mark.parametrize(
    ("part", "user", "password"),
    [
        ("", None, None),
        ("ann@", "ann", None),
        ("ann:pw@", "ann", "pw"),
        (":pw@", None, "pw"),
        (f"ann:{QUOTED}@", "ann", SECRET),
        ("a%40n:%F0%9F%90%9D@", "a@n", "🐝"),
    ],
)
async def test_user_and_password_are_unquoted(
    part: str, user: str | None, password: str | None
) -> None:
    made = options(f"redis://{part}example.org")

    assert (user, password) == (made.get("username"), made.get("password"))


async def test_tls_is_used_if_the_scheme_or_a_certificate_asks_for_it() -> None:
    def kind(url: str) -> str:
        link = read(url).make(1)
        assert isinstance(link, PoolLink)
        name: str = link._pool.connection_class.__name__
        return name

    assert "Connection" == kind("redis://h")
    assert "SSLConnection" == kind("rediss://h")
    assert "SSLConnection" == kind("redis://h?ssl_ca_certs=/ca.pem")
    assert "UnixDomainSocketConnection" == kind("unix:///run/redis.sock")


async def test_a_socket_has_a_path_and_may_have_a_password_and_a_database() -> None:
    made = options(f"unix://ann:{QUOTED}@/run/my%20redis.sock?db=2")

    assert ("/run/my redis.sock", 2) == (made["path"], made["db"])
    assert ("ann", SECRET) == (made["username"], made["password"])


async def test_a_cluster_is_known_by_some_of_its_nodes() -> None:
    found = read("redis+cluster://u:p@a,b:7001,[::1]:7002?protocol=3")
    link = found.make(4)

    assert isinstance(link, ClusterLink)
    assert (("a", 6379), ("b", 7001), ("::1", 7002)) == link._seeds
    assert found.cluster
    node = link._node(("a", 6379))._pool
    assert ("u", "p", 3, 4) == (
        node.connection_kwargs["username"],
        node.connection_kwargs["password"],
        node.connection_kwargs["protocol"],
        node.max_connections,
    )


async def test_sentinels_have_a_password_of_their_own() -> None:
    link = read("redis+sentinel://u:p@a,b:7001/my%20master/3?sentinel_password=x%26y").make(4)

    assert isinstance(link, SentinelLink)
    asked = [one._pool.connection_kwargs for one in link._sentinels]
    assert [("a", 26379), ("b", 7001)] == [(each["host"], each["port"]) for each in asked]
    assert [("x&y", None)] * 2 == [(each["password"], each.get("username")) for each in asked]
    assert "my master" == link._service
    master = link._connect(("m", 1))._pool.connection_kwargs
    assert ("u", "p", 3) == (master["username"], master["password"], master["db"])


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("redis://h:99999", "port"),
        ("redis://h:0", "port"),
        ("redis://h:-1", "port"),
        ("redis://h:http", "port"),
        ("redis://h:²", "port"),
        ("redis://h/x", "database"),
        ("redis://h/²", "database"),
        ("redis://h?db=-1", "db"),
        ("redis://h?db=x", "db"),
        ("redis://h?protocol=1", "protocol"),
        ("redis://h?protocol=4", "protocol"),
        ("redis://h?pool_size=0", "pool_size"),
        ("redis://h?deadline=0", "deadline"),
        ("redis://h?deadline=soon", "deadline"),
        ("redis://h?check=maybe", "check"),
        ("redis://h?fsync=maybe", "fsync"),
        ("redis://h?replicas=0", "replicas"),
        ("redis://h?prefix=%7Bx%7D", "prefix"),
        ("redis://h?prefix=a%00b", "prefix"),
        ("redis://h?socket_timeout=1", "socket_timeout"),
        ("redis://h?sentinel_password=x", "sentinel_password"),
        ("redis://h?deadline=1&deadline=2", "twice"),
        ("unix://", "path"),
        ("unix://run/redis.sock", "path"),
        ("unix:///run/redis.sock?ssl_ca_certs=x", "ssl_ca_certs"),
        ("redis+cluster://a,b/1", "databases"),
        ("redis+cluster://a,b:x", "port"),
        ("redis+cluster://a?fsync=1", "cluster"),
        ("redis+cluster://a?replicas=1", "cluster"),
        ("redis+sentinel://a,b", "master's name"),
        ("redis+sentinel://a,b/", "master's name"),
        ("redis+sentinel://a/m/x", "database"),
        ("redis://[::1", "URL"),
        ("redis://h#x", "#"),
        ("redis://a,b", "redis\\+cluster"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(url: str, word: str) -> None:
    with pytest.raises(InvalidOption, match=word):
        connect(url)


@pytest.mark.parametrize("url", ["", "localhost", "http://h", "memory://", "redis+tls://h"])
def test_what_is_no_redis_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="no Redis URL"):
        RedisBroker(url)


def test_every_scheme_that_is_registered_is_known_here() -> None:
    registered = entry_points(group="bee.brokers")

    assert set(SCHEMES) == {one.name for one in registered if one.value.startswith("bee_redis:")}


@pytest.mark.parametrize(
    "options",
    [
        {"pool_size": 0},
        {"pool_size": 1.5},
        {"deadline": 0},
        {"replicas": -1},
        {"prefix": ""},
        {"prefix": "a{b"},
        {"fsync": True, "replicas": -1},
    ],
    ids=str,
)
def test_bad_arguments_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RedisBroker("redis://localhost", **options)


SHOWN = {
    f"redis://ann:{QUOTED}@example.org:7000/1": "example.org:7000",
    f"rediss://ann:{QUOTED}@[::1]:7000/1": "[::1]:7000",
    f"unix://ann:{QUOTED}@/run/redis.sock": "unix:///run/redis.sock",
    f"redis+cluster://ann:{QUOTED}@a:1,b:2": "a:1,b:2",
    f"redis+sentinel://ann:{QUOTED}@a:1,b:2/m?sentinel_password=pa55": "m of a:1,b:2",
}


@pytest.mark.parametrize(("url", "where"), SHOWN.items())
def test_a_broker_shows_where_it_is_and_no_password(url: str, where: str) -> None:
    broker = connect(url)

    assert f"<RedisBroker on {where}>" == repr(broker)
    for text in (repr(broker), str(broker), repr(broker.clone()), repr(Url(url))):
        for secret in (SECRET, QUOTED, "s3cr"):
            assert secret not in text


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa55/word@h",  # not percent-encoded, so it is taken for host and port
        "redis://ann:pa55#word@h",
        "redis://ann:1234#pa55@h",
        "redis://ann:pa55?word@h",
        "redis://ann:pa55@[::1",
        "redis://ann:pa55@h:x",
        "redis://ann:pa55@h/x",
        "redis+sentinel://ann:pa55@h",
    ],
)
def test_no_refusal_shows_a_password(url: str) -> None:
    with pytest.raises(InvalidOption) as refusal:
        connect(url)

    assert "pa55" not in str(refusal.value)
    assert "word" not in str(refusal.value).replace("in a password", "")


def test_nothing_connects_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket, "getaddrinfo", fail)

    for url in SHOWN:
        connect(url).clone()


@pytest.mark.parametrize(
    "url",
    [
        "redis://ann:pa55@127.0.0.1:{port}",
        "redis+cluster://ann:pa55@127.0.0.1:{port}",
        "redis+sentinel://ann:pa55@127.0.0.1:{port}/m?sentinel_password=pa66",
        "unix://ann:pa55@/nowhere/at/all",
    ],
)
async def test_a_server_that_is_not_there_is_unavailable_and_the_password_is_not_shown(
    url: str,
) -> None:
    async with connect(url.format(port=free_port())) as broker:
        with pytest.raises(BrokerUnavailable) as trouble:
            await broker.stats("q")

        with pytest.raises(BrokerUnavailable):
            await broker.wait("q", timeout=5)

    seen: BaseException | None = trouble.value
    while seen is not None:
        assert "pa55" not in f"{seen} {seen!r}"
        assert "pa66" not in f"{seen} {seen!r}"
        seen = seen.__cause__
