"""A contender's processes: started in a group of their own, listened to, and surely ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks import environments
from benchmarks.noise import family_cpu
from benchmarks.results import Entry

PROGRAMS = Path(__file__).parent / "contenders"
STORES = ("redis", "pg", "memory")
UNSUPPORTED = 3
NONE: Mapping[str, object] = {}
PATIENCE = 60.0
"""Seconds that a contender has to come up, or to do the next job."""


class Trouble(Exception):
    """A contender did not do what it was asked to."""


class Sent(NamedTuple):
    """What a send said of itself."""

    jobs: int
    seconds: float
    cpu: float
    how: str


class Contender(NamedTuple):
    """A program, and the Python that runs it."""

    entry: Entry
    program: Path
    python: Path

    @property
    def name(self) -> str:
        return self.entry.name

    def command(self, *words: object) -> list[str]:
        return [str(self.python), str(self.program), *map(str, words)]

    def send(self, url: str, command: str, jobs: int, **options: object) -> Sent:
        """Run a send to its end."""
        words = [command, "--url", url, "--jobs", jobs, *_flags(options)]
        with _started(self.command(*words)) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE * 5)
            except subprocess.TimeoutExpired:
                raise Trouble(f"{command} of {jobs} did not end") from None
        if process.returncode == UNSUPPORTED:
            raise Trouble(f"unsupported: {err.strip().splitlines()[-1]}")
        if process.returncode:
            raise Trouble(f"{command} failed: {_last_line(err)}")
        found = json.loads(out.strip().splitlines()[-1])
        return Sent(found["jobs"], found["seconds"], found["cpu"], found["how"])


class Worker:
    """One worker process of a contender, and its children."""

    def __init__(self, contender: Contender, url: str, options: Mapping[str, object]) -> None:
        command = contender.command("work", "--url", url, *_flags(options))
        self._process = _start(command)
        self.done: list[tuple[int, float]] = []
        """How many were done at what time."""
        self._before = 0
        self.late: list[float] = []
        self.began = threading.Event()
        self.up = threading.Event()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._keep_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def count(self) -> int:
        """Jobs done so far."""
        return self.done[-1][0] if self.done else 0

    def start_over(self) -> None:
        """Forget what was done so far. To be called while nothing is."""
        self._before += self.count()
        self.done.clear()

    def cpu(self) -> float:
        """Seconds of processor time, of all its processes."""
        return family_cpu(self._process.pid)

    def check(self) -> None:
        """Raise if it has ended."""
        if self._process.poll() is not None:
            raise Trouble(f"the worker ended: {_last_line(''.join(self._errors[-40:]))}")

    def wait_up(self) -> None:
        """Until it takes jobs."""
        deadline = time.monotonic() + PATIENCE
        while not self.up.wait(0.05):
            self.check()
            if time.monotonic() > deadline:
                raise Trouble("the worker did not come up")

    def pause(self) -> None:
        """Stop the clock of all its processes, until `resume`."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9, of the whole group."""
        end(self._process)
        for reader in self._readers:
            reader.join(5)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None and not any(reader.is_alive() for reader in self._readers):
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match line.split():
                case ["done", count, at]:
                    self.done.append((int(count) - self._before, float(at)))
                case ["."]:
                    self.done.append((self.count() + 1, time.monotonic()))
                case ["late", seconds]:
                    self.late.append(float(seconds))
                case ["began", _]:
                    self.began.set()
                case ["up"]:
                    self.up.set()
                case _:  # a library's own words
                    pass

    def _keep_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)


@contextmanager
def working(
    contender: Contender, url: str, *options: Mapping[str, object]
) -> Iterator[list[Worker]]:
    """A worker process for each of the options, killed in the end."""
    workers: list[Worker] = []
    try:
        for each in options:
            workers.append(Worker(contender, url, each))
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def end(process: subprocess.Popen[str]) -> None:
    """Kill its group, and wait for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def find(names: Sequence[str], stores: Sequence[str], *, here: bool = False) -> list[Contender]:
    """The contenders whose names have one of these words in them (all, if there is none).

    `here`: with this Python; else each with that of its own environment.
    """
    found = []
    programs = [p for store in stores for p in sorted(PROGRAMS.glob(f"{store}_*.py"))]
    for program in programs:
        if names and not any(name in program.stem for name in names):
            continue
        text = program.read_text(encoding="utf-8")
        wanted = environments.dependencies(text)
        about = text.split('"""')[1].strip()
        title = program.stem.partition("_")[2].replace("_", " ")
        entry = Entry(
            name=program.stem, title=title, version=environments.version(wanted), about=about
        )
        python = Path(sys.executable) if here else environments.interpreter(wanted)
        found.append(Contender(entry, program, python))
    return found


def _flags(options: Mapping[str, object]) -> list[object]:
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _start(command: list[str]) -> subprocess.Popen[str]:
    if guard := shutil.which("setpriv"):  # if we are killed ourselves, it goes too
        command = [guard, "--pdeathsig", "KILL", "--", *command]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    )


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = _start(command)
    try:
        yield process
    finally:
        end(process)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"
