"""Worker processes that are replaced when they are killed.

Whoever is killed has begun to work before: a machine that is slow to start workers is not flooded
with them, and no kill is wasted.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

_PATIENCE = 60.0


class Pool:
    """So many processes at any time, but for those that are stopped."""

    def __init__(self, start: Callable[[], int], is_up: Callable[[int], bool], count: int) -> None:
        self._start = start
        self._is_up = is_up
        self.alive = {start() for _ in range(count)}
        self.killed: dict[int, float] = {}
        """By pid: when."""
        self.deserters: set[int] = set()
        """Who ended unasked."""
        self._asleep: dict[int, float] = {}
        """By pid: until when."""

    def kill(self, chance: random.Random, count: int) -> None:
        """kill -9 for some of them, at once; others take their places."""
        victims = chance.sample(self._awake(count), count)
        for pid in victims:
            self.killed[pid] = time.monotonic()
            os.kill(pid, signal.SIGKILL)
        for pid in victims:
            os.waitpid(pid, 0)
            self.alive.remove(pid)
            self.alive.add(self._start())

    def pause(self, chance: random.Random, seconds: float) -> None:
        """SIGSTOP for one of them, and SIGCONT when the time has passed."""
        pid = chance.choice(self._awake(1))
        os.kill(pid, signal.SIGSTOP)
        self._asleep[pid] = time.monotonic() + seconds

    def look(self) -> None:
        """Wake who has slept enough; replace who has ended unasked."""
        for pid in [pid for pid, until in self._asleep.items() if time.monotonic() >= until]:
            self._wake(pid)
        for pid in sorted(self.alive):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self.deserters.add(pid)
                self.alive.remove(pid)
                self.alive.add(self._start())

    def wake_all(self) -> None:
        """Let all of them go on, each in its time."""
        while self._asleep:
            self.look()
            time.sleep(0.02)

    def stop(self) -> None:
        """Tell all of them to stop, and wait for it."""
        for pid in self.alive:
            os.kill(pid, signal.SIGTERM)
        self.end_of_all()

    def end(self) -> None:
        """Whatever is left is killed."""
        for pid in self.alive:
            os.kill(pid, signal.SIGKILL)
        self.end_of_all()

    def _awake(self, count: int) -> list[int]:
        """Those that work, as soon as there are so many, and half of all."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            self.look()
            found = [pid for pid in sorted(self.alive - self._asleep.keys()) if self._is_up(pid)]
            half = (len(self.alive) - len(self._asleep)) / 2
            if len(found) >= max(count, half):
                return found
            assert time.monotonic() < deadline, "the workers do not begin to work"
            time.sleep(0.01)

    def end_of_all(self) -> None:
        while self.alive:
            os.waitpid(self.alive.pop(), 0)

    def _wake(self, pid: int) -> None:
        del self._asleep[pid]
        os.kill(pid, signal.SIGCONT)
