"""What stands behind a RedisBroker: the servers, their clocks, and how they are set up."""

from __future__ import annotations

import time

from bee_core.stored import Finding, Server
from bee_redis.check import parse_info, problems
from bee_redis.connection import Link

_FORGETS = Finding(
    "persistence",
    "appendonly is off: what was stored since the last snapshot, or all, is lost when the server "
    "ends. If that matters: CONFIG SET appendonly yes",
)


async def describe(link: Link, *, cluster: bool, fsync: bool, until: float) -> Server:
    """Of several servers, the slowest answer and the worst clock."""
    infos = [parse_info(found) for found in await link.everywhere(b"INFO", until=until)]
    asked = time.time()
    times = await link.everywhere(b"TIME", until=until)
    answered = time.time()
    clocks = [int(seconds) + int(micros) / 1_000_000 for seconds, micros in times]
    found = [problem for info in infos for problem in problems(info, cluster=cluster, fsync=fsync)]
    return Server(
        name=" and ".join(dict.fromkeys(_name(info) for info in infos)),
        round_trip=answered - asked,
        ahead=max((now - (asked + answered) / 2 for now in clocks), key=abs),
        findings=[Finding("server", problem) for problem in dict.fromkeys(found)],
        remarks=[_FORGETS] if any(info.get("aof_enabled") == "0" for info in infos) else [],
    )


def _name(info: dict[str, str]) -> str:
    if version := info.get("valkey_version"):
        return f"Valkey {version}"
    return f"Redis {info.get('redis_version', 'of an unknown version')}"
