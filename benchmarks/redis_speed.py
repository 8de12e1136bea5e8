"""How fast is bee on Redis, and how far from the limit?

Starts two servers of its own, so that the same work can be measured with and without something.
The allocator matters: the Valkey of the wheel is built on libc's malloc, which pays for a large
heap; name another server with --server.

    python -m benchmarks.redis_speed [--server redis-server] [--backlog 500000] [--delayed 100000]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

import bee_core as bee
from bee_redis import RedisBroker
from bee_redis.connection import run_script
from bee_redis.keys import keys
from bee_redis.records import lease
from bee_redis.scripts import SCRIPTS
from benchmarks.speed import BATCH, QUEUE, arguments, measure
from tests.servers import RedisServer, valkey_binary


class RawRedis:
    """The scripts over redis-py."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        self._keys = keys("bee", QUEUE)

    async def _run(self, verb: str, *parts: object) -> list[bytes]:
        link = await self._broker._open()
        reply: list[bytes] = await run_script(link, SCRIPTS[verb], self._keys, *parts, deadline=5.0)
        return reply

    async def send(self, drafts: Sequence[bee.Draft]) -> None:
        parts: list[object] = [2]
        for draft in drafts:
            parts += (draft.id, draft.body)
        await self._run("send", *parts)

    async def lease(self) -> Sequence[bee.Lease]:
        reply = await self._run("lease", BATCH, 30_000_000, "raw", 1, "", "", "", "")
        return [lease(0.0, *reply[i : i + 3]) for i in range(2, len(reply), 3)]

    async def settle(self, leases: Sequence[bee.Lease]) -> None:
        parts: list[object] = [len(leases)]
        for one in leases:
            parts += (one.receipt.id, one.receipt.token)
        await self._run("settle", *parts)


class OnRedis:
    """Two servers."""

    def __init__(self, one: RedisBroker, two: RedisBroker) -> None:
        self.one = one
        self.two = two
        self.raw = RawRedis(one)

    async def server_time(self, broker: bee.Store) -> float:
        info = await self.server_info(broker)
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    async def server_info(self, broker: bee.Store) -> dict[str, str]:
        """What the server says of itself."""
        assert isinstance(broker, RedisBroker)
        link = await broker._open()
        [info] = await link.everywhere("INFO", "everything", deadline=5.0)
        return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)


async def run(urls: Sequence[str], options: argparse.Namespace) -> None:
    one, two = (RedisBroker(url) for url in urls)
    async with one, two:
        subject = OnRedis(one, two)
        info = await subject.server_info(one)
        version = info.get("valkey_version") or info["redis_version"]
        print(f"server {version} with {info['mem_allocator']}")
        await measure(subject, options)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--server", default=valkey_binary(), help="a redis-server or valkey-server")
    options = parser.parse_args()
    servers = [RedisServer(options.server), RedisServer(options.server)]
    try:
        asyncio.run(run([server.url for server in servers], options))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
