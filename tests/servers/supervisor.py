"""A server process under a supervisor, in a directory of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

# Stopped children would sleep on after their server, so they are woken, to find the signal waiting.
# Who guards a directory in which others have theirs lets those stop first if the tests died.
_SUPERVISOR = """
import os, pwd, shutil, signal, subprocess, sys, time
directory, ending, user, *command = sys.argv[1:]
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
log = open(os.path.join(directory, "log"), "ab")
drop = dict(user=user, group=pwd.getpwnam(user).pw_gid, extra_groups=[]) if user else {}
common = dict(cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
server = subprocess.Popen(command, **common, **drop) if command else None
try:
    os.write(1, b"%d\\n" % (server.pid if server else 0))
except BrokenPipeError:
    pass
is_asked = sys.stdin.buffer.read(1)
if not server and not is_asked:
    time.sleep(0.5)
if server:
    import psutil
    try:
        children = psutil.Process(server.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    server.send_signal(int(ending))
    server.send_signal(signal.SIGCONT)
    for each in children:
        try:
            if each.status() == psutil.STATUS_STOPPED:
                each.send_signal(int(ending))
                each.resume()
        except psutil.NoSuchProcess:
            pass
    try:
        server.wait(8)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
for _ in range(50 if os.environ.get("BEE_KEEP") != "1" else 0):
    shutil.rmtree(directory, ignore_errors=True)
    if not os.path.exists(directory):
        break
    time.sleep(0.1)
"""


class Server:
    """A server process under a supervisor, in a directory of its own.

    Without a command the supervisor only sees to it that the directory does not outlive the tests.
    If the ending is 0, it waits for the end: the command is one that ends by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        keep: bool = False,
        ending: int = signal.SIGKILL,
        user: str = "",
    ) -> None:
        self.directory = directory
        arguments = [str(directory), str(int(ending)), user, *command]
        self._supervisor = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, *arguments],
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

    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        with suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE)
        return False

    def stop(self) -> None:
        """End it. Its directory goes with it, unless it was to be kept. May be called twice."""
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        if self._supervisor.stdin.closed:
            return
        self._supervisor.stdin.write(b"x")  # forked children may hold the pipe open too
        self._supervisor.stdin.close()
        self._supervisor.wait(15)
        self._supervisor.stdout.close()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside it the server and its children are silent, and their connections stay up."""
        server = psutil.Process(self.pid)
        server.suspend()
        while server.status() != psutil.STATUS_STOPPED:  # until then it may have one child more
            time.sleep(0.001)
        family = [server, *server.children(recursive=True)]
        try:
            for each in family[1:]:
                with suppress(psutil.NoSuchProcess):
                    each.suspend()
            yield
        finally:
            for each in family:
                with suppress(psutil.NoSuchProcess):  # it may have been killed meanwhile
                    each.resume()


def short_directory(parent: Path | None = None) -> Path:
    """A directory with a short path: that of a socket may have 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="bee-", dir=parent))


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
