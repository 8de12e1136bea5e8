"""What every contender shares: its commands, the job, and how its processes tell what they do.

A contender is a program beside this file, named STORE_LIBRARY.py, that does the same work with one
library. It runs in an environment of its own, made from the dependencies in its header, so nothing
but the standard library and that library may be imported in it, and here.

    send        send jobs one after the other            -> one line of JSON
    send-many   send them the fastest way there is       -> one line of JSON
    work        one worker process, until it is killed   -> lines as below

A worker prints a line when it is up, how many jobs it has done every few milliseconds, and what its
handler was asked to tell. Times are those of CLOCK_MONOTONIC, which all processes share.

    up
    done COUNT TIME        so many by now, in this process
    .                      one more (from a process that the library forks for a job)
    late SECONDS           from the send of a job to its handler
    began TIME             a handler that will never end has begun
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

EVERY = 0.01
"""Seconds between two looks at how many are done."""
UNSUPPORTED = 3
"""The exit code of a command that the library has no way to do."""


def payload(number: int) -> dict[str, Any]:
    """About 200 bytes of JSON; the job of every contender."""
    return {"number": number, "sent": time.monotonic(), "text": "x" * 150}


class Meter:
    """Counts what the handlers of one process have done, and says so on standard output."""

    def __init__(self, *, forks: bool = False) -> None:
        self._done: list[None] = []
        self.done: Callable[[], None] = self._tell_one if forks else self._count_one
        """To be called at the end of each job, from any thread."""
        if not forks:
            threading.Thread(target=self._tell, daemon=True).start()

    def up(self) -> None:
        """To be called when jobs are about to be taken."""
        say("up")

    def late(self, sent: float) -> None:
        """To be called first of all by a handler whose delay is measured."""
        say(f"late {time.monotonic() - sent:.6f}")

    def began(self) -> None:
        """To be called by a handler that will never end."""
        say(f"began {time.monotonic():.6f}")

    def _count_one(self) -> None:
        self._done.append(None)  # atomic, and the cheapest thing there is

    def _tell_one(self) -> None:
        say(".")

    def _tell(self) -> None:
        told = 0
        while True:
            time.sleep(EVERY)
            count = len(self._done)
            if count != told:
                say(f"done {count} {time.monotonic():.6f}")
                told = count


def say(line: str) -> None:
    """A line that is never mixed with another process's."""
    os.write(1, f"{line}\n".encode())


def options() -> argparse.Namespace:
    """The command line of a contender."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["send", "send-many", "work"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=0, help="0: what is best for this library")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each send")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds until a job is due")
    parser.add_argument("--concurrency", type=int, default=0, help="0: what is best")
    parser.add_argument("--queue", default="bench", help="of bee's; the others have one")
    parser.add_argument("--handler", choices=["noop", "sleep", "late", "hang"], default="noop")
    return parser.parse_args()


class Stopwatch:
    """Measures a send, and prints what it took."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def stop(self, jobs: int, how: str) -> None:
        """Say how long these jobs took, and by which of the library's ways they were sent."""
        seconds, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        say(json.dumps({"jobs": jobs, "seconds": seconds, "cpu": cpu, "how": how}))


def unsupported(why: str) -> None:
    """End: the library has no way to do this."""
    print(why, file=sys.stderr)
    sys.exit(UNSUPPORTED)
