"""Functions that tests run in child processes. They must be importable there."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import bee_core as bee

from . import in_children
from .support import Work


class Unpicklable(Exception):
    """Cannot be rebuilt from what pickle keeps of it."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def act(job: Work) -> object:
    """Do what the job says."""
    match job.what:
        case "double":
            return 2 * job.number
        case "pid":
            return os.getpid()
        case "fail":
            raise ValueError("no way")
        case "fail oddly":
            raise Unpicklable("a", "b")
        case "return the unpicklable":
            return lambda: None
        case "retry":
            raise bee.Retry("again", after=60)
        case "give up":
            raise bee.PermanentError("never")
        case "rule":
            return bee.Archive()
        case "snooze":
            raise bee.Snooze(60)
        case "print":
            print("x" * 100_000)  # noqa: T201
            print("y" * 100_000, file=sys.stderr)  # noqa: T201
        case "exit":
            sys.exit(3)
        case "crash":
            os._exit(1)
        case "crash by signal":
            os.kill(os.getpid(), signal.SIGKILL)
        case "call a program":
            subprocess.run([sys.executable, "-c", "print('hello')"], check=True)
        case "call a program that complains":
            subprocess.run(["sh", "-c", "head -c 2000000 /dev/zero >&2"], check=True)
        case "call a program that reads":
            subprocess.run(["cat"], check=True)
        case _ if job.what.startswith("wait for "):
            in_children.wait_for(job.what.removeprefix("wait for "))
        case _:
            pass
    return None


def clean_up(job: Work) -> None:
    """Hang until SIGTERM comes, and clean up."""
    in_children.clean_up_at_sigterm(job.what)


def add(first: int, second: int) -> int:
    return first + second


def hang(job: Work) -> None:
    """Hang for ever, deaf to SIGTERM, after leaving the process id in the file `job.what`."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path = Path(job.what)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.02)
