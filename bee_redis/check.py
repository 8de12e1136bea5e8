"""Looking at the server before it is trusted: what bee cannot work with is said at once."""

from __future__ import annotations

from bee_core.errors import BrokerMisconfigured
from bee_redis.connection import Link

OLDEST = (7, 0)


async def check_server(link: Link, *, cluster: bool, deadline: float) -> None:
    """Raise BrokerMisconfigured, saying what to set, unless bee can rely on this server."""
    info = parse_info(await link.call(b"", b"INFO", deadline=deadline))
    for problem in problems(info, cluster=cluster):
        raise BrokerMisconfigured(problem)


def problems(info: dict[str, str], *, cluster: bool) -> list[str]:
    """What is wrong with a server, from its INFO; each sentence says what to do."""
    found = []
    version = info.get("valkey_version") or info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        found.append(f"server version {version}: bee needs Redis 7.0 or Valkey 7.2, or newer")
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
        found.append("this server is not part of a cluster: use redis://")
    return found


def parse_info(text: bytes | dict[str, object]) -> dict[str, str]:
    """The fields of an INFO reply."""
    if isinstance(text, dict):
        return {str(name): str(value) for name, value in text.items()}
    lines = text.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
