"""What `bee worker` was told, and how a supervisor tells it to a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import msgspec

from bee_core.config import worker_variable
from bee_core.url import UrlText

_PASSED_ON = ("queues", "concurrency", "grace", "max_jobs", "max_rss", "loop", "log", "log_level")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed, or set elsewhere."""

    target: str
    url: UrlText | None
    queues: str | None
    concurrency: int | None
    processes: int | None
    until_empty: bool
    grace: float | None
    max_jobs: int | None
    max_rss: int | None
    heartbeat_file: Path | None
    events: str | None
    metrics: tuple[str, int] | None
    reload: bool
    loop: Literal["asyncio", "uvloop"]
    log: Literal["text", "json"]
    log_level: str
    supervised: str | None

    @property
    def alone(self) -> bool:
        """Whether there shall be one process, with a supervisor only to start it again."""
        return self.processes is None

    def command(self, number: int, fd: int) -> list[str]:
        """The command of one process of a supervisor. Without the URL: `ps` shows it to all."""
        words = [self.target]
        for name in _PASSED_ON:
            if (value := getattr(self, name)) is not None:
                shown = f"{value:f}" if isinstance(value, float) else str(value)  # never 1e-05
                words += [f"--{name.replace('_', '-')}", shown]
        words += ["--until-empty"] if self.until_empty else []
        tells = self.events is not None or self.metrics is not None
        line = Line(fd=fd, number=number, tells=tells, alone=self.alone)
        # -P, as for a script: a `queue.py` in the current directory shall not be taken for Python's
        python = [sys.executable, "-P", "-m", "bee_core.cli", "worker"]
        return [*python, *words, "--supervised", line.written()]

    def environment(self) -> dict[str, str]:
        """What a process of a supervisor inherits."""
        found = {k: v for k, v in os.environ.items() if not k.startswith(worker_variable(""))}
        if self.url is not None:
            found[worker_variable("url")] = self.url
        if self.reload:
            # Python takes compiled code for that of a file which has changed within a second.
            found["PYTHONDONTWRITEBYTECODE"] = "1"
        return found


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A process's end of the line to its supervisor."""

    fd: int
    number: int
    tells: bool
    """Whether somebody wants to hear its events."""
    alone: bool
    """Whether it is the only one."""

    def written(self) -> str:
        """For `--supervised`."""
        marks = [word for word in ("tells", "alone") if getattr(self, word)]
        return ":".join([str(self.fd), str(self.number), *marks])

    @classmethod
    def read(cls, text: str) -> Line:
        """What was written."""
        fd, number, *marks = text.split(":")
        return cls(fd=int(fd), number=int(number), tells="tells" in marks, alone="alone" in marks)
