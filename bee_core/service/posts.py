"""Where processes work, and how long a supervisor waits before it starts the next one there."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections import deque
from contextlib import suppress

import msgspec

from bee_core.service.pulse import Pulse


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits for what, in seconds."""

    first: float = 0.5
    """Before a process that crashed is started again; doubled each time."""
    longest: float = 30.0
    healthy: float = 60.0
    """A process that lived so long has not crashed at once."""
    crashes: int = 5
    within: float = 60.0
    """So many crashes in that time: it is started only every `longest` from then on."""
    after_grace: float = 10.0
    """Between the end of the grace and SIGKILL."""
    beat: float = 1.0


PAUSES = Pauses()


class Process:
    """One process, from its start to its end."""

    def __init__(self, number: int, child: asyncio.subprocess.Process, line: socket.socket) -> None:
        self.number = number
        self.child = child
        self.line = line
        self.born = time.monotonic()
        self.pulse: Pulse | None = None
        self.grace = 0.0
        self.up = asyncio.Event()
        self.leaving = asyncio.Event()
        self.ended: asyncio.Task[int] | None = None

    @property
    def lived(self) -> float:
        return time.monotonic() - self.born

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.child.send_signal(number)


class Post:
    """Where one process works, and how its predecessors fared."""

    def __init__(self, number: int, pauses: Pauses) -> None:
        self.number = number
        self.first = True
        self.working = False
        self._pauses = pauses
        self._pause = pauses.first
        self._crashes: deque[float] = deque(maxlen=pauses.crashes)
        self.slowed = False

    def crashed(self, lived: float) -> float:
        """Take note; return the seconds to wait. `slowed` says whether it crashes in a loop."""
        pauses, now = self._pauses, time.monotonic()
        self.working = False
        if lived >= pauses.healthy:
            self._pause, self.slowed = pauses.first, False
            self._crashes.clear()
        self._crashes.append(now)
        many = len(self._crashes) == pauses.crashes
        if self.slowed or (many and now - self._crashes[0] <= pauses.within):
            self.slowed = True
            return pauses.longest
        pause, self._pause = self._pause, min(2 * self._pause, pauses.longest)
        return pause
