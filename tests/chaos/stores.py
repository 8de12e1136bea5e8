"""The stores that the stress runs are done on: servers that keep their data when killed."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from typing import Protocol

from bee_pg import PgBroker
from tests.servers import PgServer, RedisServer, pg_binaries, short_directory, valkey_binary

NAMES = ("valkey", "pg")


class Killable(Protocol):
    """A server that can be killed and started again on what it has on disk."""

    @property
    def url(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


def durable(name: str, port: int = 0, prefix: Sequence[str] = ()) -> Killable:
    """A fresh server that loses nothing it has acknowledged when it is killed."""
    if name == "pg":
        server = PgServer(18, keep=True, durable=True, port=port, prefix=prefix)
        asyncio.run(_migrate(server.url))
        return server
    options = ("--appendonly", "yes", "--appendfsync", "always")  # everysec: not while it syncs
    return RedisServer(
        valkey_binary(),
        *options,
        directory=short_directory(),
        port=port,
        keep=True,
        prefix=prefix,
    )


def versions(name: str) -> dict[str, str]:
    """What the server calls itself."""
    if name == "pg":
        program = pg_binaries(18)
        assert program is not None
        words = _said(f"{program}/postgres")
        return {"PostgreSQL": words[2], "fsync": "on"}
    if name == "valkey":
        words = _said(valkey_binary())
        return {"Valkey": words[2].removeprefix("v="), "appendfsync": "always"}
    return {}


def _said(program: str) -> list[str]:
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()


async def _migrate(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await broker.queues()


def sparing(server: Killable) -> str:
    """Its URL for many workers at once: PostgreSQL takes a hundred connections and no more."""
    if not isinstance(server, PgServer):
        return server.url
    return f"{server.url}{'&' if '?' in server.url else '?'}pool_size=2"


def cut_all(server: Killable) -> None:
    """End every connection to the server, and nothing else."""
    if isinstance(server, PgServer):
        server.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
    elif isinstance(server, RedisServer):
        server.ask("CLIENT", "KILL", "TYPE", "normal")
