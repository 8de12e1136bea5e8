"""How fast is bee on PostgreSQL, and how far from the limit?

Starts two servers of its own with PostgreSQL's default settings, fsync on.

    python -m benchmarks.pg_speed [--major 18] [--backlog 500000] [--delayed 300000]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

import psycopg

import bee_core as bee
from bee_pg import PgBroker
from bee_pg.records import SEND, SETTLE, call, draft_columns, lease
from benchmarks.speed import BATCH, QUEUE, arguments, measure
from tests.servers import PgServer


class RawPg:
    """The functions over psycopg, on one connection."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        self._connection = connection

    async def _run(self, verb: str, types: str, *parts: object) -> list[tuple[object, ...]]:
        statement = call("bee", verb, f"%b::text, {types}")
        found = await self._connection.execute(statement, [QUEUE, *parts], binary=True)
        return await found.fetchall()

    async def send(self, drafts: Sequence[bee.Draft]) -> None:
        await self._run("send", SEND, *draft_columns(drafts))

    async def lease(self) -> Sequence[bee.Lease]:
        rows = await self._run("lease", "%b::int4, %b::float8, %b::text", BATCH, 30.0, "raw")
        return [lease(row) for row in rows]

    async def settle(self, leases: Sequence[bee.Lease]) -> None:
        ids = [one.receipt.id for one in leases]
        tokens = [one.receipt.token for one in leases]
        await self._run("settle", SETTLE, ids, tokens, "D" * len(leases))


class OnPg:
    """Two servers."""

    def __init__(
        self, servers: Sequence[PgServer], brokers: Sequence[PgBroker], raw: RawPg
    ) -> None:
        self.one, self.two = brokers
        self.raw = raw
        self._servers = dict(zip(brokers, servers, strict=True))

    async def server_time(self, broker: bee.Store) -> float:
        assert isinstance(broker, PgBroker)
        return self._servers[broker].cpu()


async def run(servers: Sequence[PgServer], options: argparse.Namespace) -> None:
    one, two = (PgBroker(server.url, migrate=True, deadline=60) for server in servers)
    async with one, two:
        await one.queues()
        raw = await psycopg.AsyncConnection.connect(servers[0].url, autocommit=True)
        raw.prepare_threshold = None
        print(f"PostgreSQL {options.major}, default settings")
        await measure(OnPg(servers, (one, two), RawPg(raw)), options)
        await raw.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.set_defaults(delayed=300_000)
    parser.add_argument("--major", type=int, default=18)
    options = parser.parse_args()
    servers = [PgServer(options.major, durable=True) for _ in range(2)]
    try:
        asyncio.run(run(servers, options))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
