"""From a URL to a way of making links: one server, a cluster, or Sentinel."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis.asyncio.connection import (
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bee_core.errors import InvalidOption
from bee_core.url import Secret, Url
from bee_redis.cluster import Address, ClusterLink
from bee_redis.connection import Link, PoolLink
from bee_redis.sentinel import SentinelLink

SCHEMES = (
    "redis",
    "rediss",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
)


class Links(NamedTuple):
    """How to make a link with that many connections, in the event loop that will use it."""

    make: Callable[[int], Link]
    cluster: bool
    shown: str


def links(url: Url, *, deadline: float) -> Links:
    """Read everything that a Redis URL says about where the server is and how to talk to it."""
    if url.scheme not in SCHEMES:
        raise InvalidOption(f"{url.scheme}:// is no Redis URL; there are {', '.join(SCHEMES)}")
    protocol = url.integer("protocol", least=2) or 2
    if protocol > 3:
        raise InvalidOption("URL parameter protocol must be 2 or 3")
    options: dict[str, Any] = {
        "protocol": protocol,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "socket_connect_timeout": deadline,
        "socket_timeout": None,  # a deadline is set around every call instead
        "health_check_interval": 0,
        **_no_notifications(),
    }
    if url.parts.fragment:  # not shown: it may be a piece of the password
        raise InvalidOption("a Redis URL has nothing after a # (write it as %23 in a password)")
    if url.parts.username:
        options["username"] = unquote(url.parts.username)
    if url.parts.password is not None:
        options["password"] = Secret(unquote(url.parts.password))
    if url.scheme == "unix":
        return _unix(url, options)
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if (value := url.string(name)) is not None:
            options[name] = value
    options["socket_keepalive"] = True
    tls = url.scheme.startswith("rediss") or any(name.startswith("ssl_") for name in options)
    options["connection_class"] = SSLConnection if tls else Connection
    if url.scheme.endswith("+cluster"):
        return _cluster(url, options)
    if url.scheme.endswith("+sentinel"):
        return _sentinel(url, options)
    return _single(url, options)


def _no_notifications() -> dict[str, Any]:
    """A pool that may be told of maintenance (RESP3) no longer sees that a connection is dead."""
    if "maint_notifications_config" not in signature(ConnectionPool.__init__).parameters:
        return {}
    from redis.maint_notifications import MaintNotificationsConfig

    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}


def _pool(size: int, options: dict[str, Any]) -> PoolLink:
    return PoolLink(ConnectionPool(max_connections=size, **options))


def _unix(url: Url, options: dict[str, Any]) -> Links:
    path = unquote(url.parts.path)
    if url.parts.netloc.rpartition("@")[2] or not path:
        raise InvalidOption("unix:// needs the path of the server's socket: unix:///run/redis.sock")
    options |= {"path": path, "db": _database(url, "")}
    options["connection_class"] = UnixDomainSocketConnection
    return Links(lambda size: _pool(size, options), False, f"unix://{path}")


def _single(url: Url, options: dict[str, Any]) -> Links:
    (host, port), *more = _hosts(url)
    if more:
        raise InvalidOption("several hosts: use redis+cluster:// or redis+sentinel://")
    options |= {"host": host, "port": port, "db": _database(url, url.parts.path)}
    return Links(lambda size: _pool(size, options), False, _shown([(host, port)]))


def _cluster(url: Url, options: dict[str, Any]) -> Links:
    nodes = _hosts(url)
    if url.parts.path.strip("/"):
        raise InvalidOption("a cluster has no databases: leave out the path")

    def make(size: int) -> Link:
        def connect(address: Address) -> PoolLink:
            return _pool(size, options | {"host": address[0], "port": address[1]})

        return ClusterLink(nodes, connect)

    return Links(make, True, _shown(nodes))


def _sentinel(url: Url, options: dict[str, Any]) -> Links:
    sentinels = _hosts(url, default=26379)
    service, _, database = url.parts.path.strip("/").partition("/")
    if not service:
        raise InvalidOption(
            "redis+sentinel:// needs the master's name: redis+sentinel://h1,h2,h3/mymaster/0"
        )
    ask = {name: value for name, value in options.items() if name not in ("username", "password")}
    for name in ("username", "password"):
        if (value := url.string(f"sentinel_{name}")) is not None:
            ask[name] = value
    options |= {"db": _number(database)}

    def make(size: int) -> Link:
        watch = [_pool(1, ask | {"host": host, "port": port}) for host, port in sentinels]
        return SentinelLink(
            watch,
            unquote(service),
            lambda address: _pool(size, options | {"host": address[0], "port": address[1]}),
        )

    return Links(make, False, f"{unquote(service)} of {_shown(sentinels)}")


def _shown(hosts: list[Address]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)


def _hosts(url: Url, default: int = 6379) -> list[Address]:
    # Each as a Secret: in a URL that is wrong it may be a piece of the password.
    hosts = map(Secret, url.parts.netloc.rpartition("@")[2].split(","))
    return [_host(host, default) for host in hosts]


def _host(text: str, default: int = 6379) -> Address:
    host, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        port = Secret(port)
        raise InvalidOption(
            "the port of a Redis URL must be a number from 1 to 65535 (write / @ : # in a password "
            "as %2F %40 %3A %23)"
        )
    return host.strip("[]") or "localhost", int(port) if port else default


def _database(url: Url, path: str) -> int:
    given = url.integer("db", least=0)
    return given if given is not None else _number(path.strip("/"))


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit()):
        raise InvalidOption("the path of a Redis URL must be the number of a database")
    return int(text or 0)
