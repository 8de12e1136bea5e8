"""From a URL to a way of making links: one server, a cluster, or Sentinel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import (
    BlockingConnectionPool,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from bee_core.errors import InvalidOption
from bee_core.url import Url
from bee_redis.connection import ClusterLink, Link, PoolLink


class Links(NamedTuple):
    """How to make a link with that many connections, in the event loop that will use it."""

    make: Callable[[int], Link]
    cluster: bool
    shown: str


def links(url: Url, *, deadline: float) -> Links:
    """Read everything that a Redis URL says about where the server is and how to talk to it."""
    protocol = url.integer("protocol", least=2) or 2
    options: dict[str, Any] = {
        "protocol": protocol,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "socket_connect_timeout": deadline,
        "socket_timeout": None,  # a deadline is set around every call instead
        "socket_keepalive": True,
        "health_check_interval": 0,
    }
    parts = url.parts
    if parts.username:
        options["username"] = unquote(parts.username)
    if parts.password is not None:
        options["password"] = unquote(parts.password)
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if (value := url.string(name)) is not None:
            options[name] = value
    tls = url.scheme.startswith("rediss") or any(name.startswith("ssl_") for name in options)
    if url.scheme == "unix":
        return _unix(url, options)
    if url.scheme.endswith("+cluster"):
        return _cluster(url, options, tls)
    if url.scheme.endswith("+sentinel"):
        return _sentinel(url, options, tls)
    return _single(url, options, tls)


def _unix(url: Url, options: dict[str, Any]) -> Links:
    path = unquote(url.parts.path)
    if not path:
        raise InvalidOption("unix:// needs the path of the server's socket: unix:///run/redis.sock")
    options = _without(options, "socket_keepalive") | {"path": path, "db": _database(url, "")}
    return Links(_pool(UnixDomainSocketConnection, options), False, f"unix://{path}")


def _single(url: Url, options: dict[str, Any], tls: bool) -> Links:
    host, port = _host(url.parts.netloc.rpartition("@")[2])
    options |= {"host": host, "port": port, "db": _database(url, url.parts.path)}
    return Links(_pool(SSLConnection if tls else Connection, options), False, f"{host}:{port}")


def _pool(kind: type[Any], options: dict[str, Any]) -> Callable[[int], Link]:
    def make(size: int) -> Link:
        wait = options["socket_connect_timeout"]
        pool = BlockingConnectionPool(
            max_connections=size, timeout=wait, connection_class=kind, **options
        )
        return PoolLink(pool)

    return make


def _cluster(url: Url, options: dict[str, Any], tls: bool) -> Links:
    nodes = _hosts(url)
    if url.parts.path.strip("/"):
        raise InvalidOption("a cluster has no databases: leave out the path")
    kept = _without(options, "retry_on_error", "socket_timeout")

    def make(size: int) -> Link:
        startup = [ClusterNode(host, port) for host, port in nodes]
        return ClusterLink(
            RedisCluster(startup_nodes=startup, max_connections=size, ssl=tls, **kept)
        )

    return Links(make, True, ",".join(f"{host}:{port}" for host, port in nodes))


def _sentinel(url: Url, options: dict[str, Any], tls: bool) -> Links:
    sentinels = _hosts(url, default=26379)
    service, _, database = url.parts.path.strip("/").partition("/")
    if not service:
        raise InvalidOption(
            "redis+sentinel:// needs the master's name: redis+sentinel://h1,h2,h3/mymaster/0"
        )
    credentials = {}
    if (password := url.string("sentinel_password")) is not None:
        credentials["password"] = password
    options |= {"db": _number(database)}
    quick = {"socket_connect_timeout": 0.5, "socket_timeout": 0.5}

    def make(size: int) -> Link:
        watch = Sentinel(sentinels, sentinel_kwargs=credentials | quick)  # type: ignore[no-untyped-call]
        pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
            unquote(service), watch, max_connections=size, ssl=tls, **options
        )
        return PoolLink(pool)

    return Links(make, False, ",".join(f"{host}:{port}" for host, port in sentinels))


def _hosts(url: Url, default: int = 6379) -> list[tuple[str, int]]:
    netloc = url.parts.netloc.rpartition("@")[2]
    return [_host(host, default) for host in netloc.split(",")]


def _host(text: str, default: int = 6379) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    if port and not port.isdigit():
        raise InvalidOption(f"{port!r} is not a port")
    return host.strip("[]") or "localhost", int(port) if port else default


def _database(url: Url, path: str) -> int:
    given = url.integer("db", least=0)
    return given if given is not None else _number(path.strip("/"))


def _number(text: str) -> int:
    if text and not text.isdigit():
        raise InvalidOption(f"{text!r} is not a database number")
    return int(text or 0)


def _without(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
