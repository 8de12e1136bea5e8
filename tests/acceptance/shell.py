"""A shell that types what a page prints, and looks at what it answers.

One bash for a whole page, so that `export`, `&` and `$!` mean what they mean to the reader. What a
program in the background prints is waited for as a reader would wait: until it is there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.acceptance.page import Command, pattern

PATIENCE = 90.0
"""Seconds for a command to end."""
ATTENTION = 20.0
"""Seconds from then on for what programs in the background print."""
_KILLED = re.compile(r"^.*line \d+: +\d+ Killed .*\n", re.MULTILINE)
"""What bash says of a program that was killed in the background. Terminals show it elsewhere."""


class Disagrees(AssertionError):
    """What is to be seen is not what the page shows."""


class Shell:
    """A bash in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.commands = 0
        self.began = time.monotonic()
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self._seen = ""
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env={**environment, "PYTHONUNBUFFERED": "1"},  # as in a terminal: line by line
            stdin=subprocess.PIPE,
            stdout=write,
            stderr=write,
            text=True,
            start_new_session=True,
        )
        os.close(write)

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, with all that was left in the background."""
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        assert self._bash.stdin is not None
        with suppress(BrokenPipeError):
            self._bash.stdin.close()
        os.close(self._read)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.began

    def type(self, command: Command) -> str:
        """Type a command; what was seen, once it is what the page shows. It must not fail."""
        self.commands += 1
        mark = f"ended-{self.commands}"
        assert self._bash.stdin is not None
        with suppress(BrokenPipeError):  # it is seen below that bash has ended
            self._bash.stdin.write(f"{command.words}\necho {mark} $?\n")
            self._bash.stdin.flush()
        end = re.compile(rf"^{mark} (\d+)\n", re.MULTILINE)
        wanted = None if command.shows is None else pattern(command.shows)
        attentive, deadline = False, time.monotonic() + PATIENCE
        while True:
            self._look()
            ended = end.search(self._seen)
            seen = _KILLED.sub("", end.sub("", self._seen))
            if ended and ended[1] != "0":
                raise Disagrees(self._complaint(command, f"ended with {ended[1]}", seen))
            if ended and (wanted is None or wanted.fullmatch(seen)):
                self._seen = ""
                return seen
            if ended and not attentive:
                attentive, deadline = True, time.monotonic() + ATTENTION
            if time.monotonic() > deadline or self._bash.poll() is not None:
                raise Disagrees(self._complaint(command, "shows something else", seen))
            time.sleep(0.02)

    def _look(self) -> None:
        try:
            while data := os.read(self._read, 65536):
                self._seen += data.decode(errors="replace")
        except BlockingIOError:
            pass

    def _complaint(self, command: Command, what: str, seen: str) -> str:
        printed = "" if command.shows is None else f"\nthe page:\n{command.shows}"
        return f"line {command.line}: $ {command.words}\n{what}{printed}\nseen:\n{seen}"
