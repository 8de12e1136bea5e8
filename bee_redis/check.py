"""Looking at the server before it is trusted: what bee cannot work with is said at once."""

from __future__ import annotations

import re

from bee_core.errors import BrokerMisconfigured
from bee_redis.cluster import NOT_CLUSTERED
from bee_redis.connection import Link
from bee_redis.scripts import FILES

OLDEST = (7, 0)
_HAS_WAITAOF = (7, 2)
IN_SCRIPTS = """
    DEL EXISTS HDEL HEXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN HSET HSETNX LLEN
    PEXPIRE PTTL RPUSH UNLINK ZADD ZCARD ZCOUNT ZLEXCOUNT ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK
    ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREVRANGE ZREVRANGEBYLEX ZREVRANK ZSCORE
"""
"""The commands of `lua/`. Half a script is worse than none, so a missing right is found at once."""


async def check_server(
    link: Link, *, cluster: bool, until: float, prefix: str, fsync: bool
) -> None:
    """Raise BrokerMisconfigured, saying what to set, unless bee can rely on this server."""
    for answer in await link.everywhere(b"INFO", until=until):
        for problem in problems(parse_info(answer), cluster=cluster, fsync=fsync):
            raise BrokerMisconfigured(problem)
    arguments = [part for pair in needed(prefix) for part in pair]
    script = (FILES / "rights.lua").read_bytes()
    for answer in await link.everywhere(b"EVAL", script, 0, *arguments, until=until):
        if answer:
            raise BrokerMisconfigured(lacking(answer, prefix))


def problems(info: dict[str, str], *, cluster: bool, fsync: bool = False) -> list[str]:
    """What is wrong with a server, from its INFO; each sentence says what to do."""
    found = []
    shown = info.get("valkey_version") or info.get("redis_version", "0")
    if version(shown) < OLDEST:
        found.append(f"server version {shown}: bee needs Redis 7.0 or Valkey 7.2, or newer")
    if info.get("role") not in (None, "master"):
        found.append(
            "this server is a replica: give the URL of its master, or use redis+sentinel://"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(
            f"maxmemory-policy is {policy}, which may delete jobs: "
            "CONFIG SET maxmemory-policy noeviction (or check=0 in the URL, at your own risk)"
        )
    enabled = info.get("cluster_enabled") == "1"
    if enabled and not cluster:
        found.append("this server is part of a cluster: use redis+cluster://")
    if cluster and not enabled:
        found.append(NOT_CLUSTERED)
    if fsync and version(shown) < _HAS_WAITAOF:
        found.append(f"server version {shown}: fsync=1 needs WAITAOF, so Redis 7.2 or Valkey 7.2")
    elif fsync and info.get("aof_enabled", "1") == "0":
        found.append("fsync=1 needs an append-only file: CONFIG SET appendonly yes")
    return found


def version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version, whatever else stands in it."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def parse_info(text: bytes | dict[str, object]) -> dict[str, str]:
    """The fields of an INFO reply."""
    if isinstance(text, dict):
        return {str(name): str(value) for name, value in text.items()}
    lines = text.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def needed(prefix: str) -> list[tuple[str, str]]:
    """Every command that bee sends, itself or in a script, with a key that it is sent for."""
    own, names = f"{prefix}:{{check}}:msg", f"{prefix}:queues"
    rights = [(command, own) for command in (*IN_SCRIPTS.split(), "BLPOP")]
    return rights + [(command, names) for command in ("SADD", "SREM", "SMEMBERS")]


def lacking(commands: list[bytes], prefix: str) -> str:
    """The sentence for a user who may not do everything."""
    given = " ".join("+" + command.decode().lower() for command in commands)
    return (
        f"the user of this URL lacks rights, on the keys {prefix}:* at least: "
        f"ACL SETUSER <name> ~{prefix}:* {given}"
    )
