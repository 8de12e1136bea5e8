"""How loaded a worker, its process and its machine are: what `Auto` decides by."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path
from typing import Protocol

import msgspec

SAMPLE = 0.05
"""Seconds between two looks."""
_REMEMBERED = 10
_SATURATED = 0.95
"""Part of the processors from which on it matters how many wait for one."""


class Reading(msgspec.Struct, frozen=True):
    """How loaded it is.

    cpu   the part of the processor time there is that is needed: 1 is all of it, and 2 that twice
          as much would be used
    lag   seconds by which the event loop is late
    """

    cpu: float
    lag: float


class Load(msgspec.Struct, frozen=True):
    """What there was to do of late: the most slots in use, and whether more were wanted."""

    used: int
    hungry: bool


class Meter(Protocol):
    """Anything that can be read."""

    def read(self) -> Reading:
        """How it was since the last reading. Called in the worker's event loop, so it is quick."""
        ...


class LoopMeter:
    """Measures the event loop that it runs in, and the processors of its machine or cgroup.

    A loop is one thread, so what it needs is measured against one processor; whichever of the two
    is scarcer counts.
    """

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=_REMEMBERED)
        self._running: list[int] = []
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._at, self._thread = time.monotonic(), time.thread_time()
        self._stat, self._group = _machine(), _group()

    async def run(self) -> None:
        """Take samples for ever."""
        while True:
            due = time.monotonic() + SAMPLE
            await asyncio.sleep(SAMPLE)
            self._lags.append(max(0.0, time.monotonic() - due))
            self._running.append(_runnable())

    def read(self) -> Reading:
        now, thread, stat, group = time.monotonic(), time.thread_time(), _machine(), _group()
        passed = max(now - self._at, 1e-3)
        cpu = max(
            (thread - self._thread) / passed,
            self._of_machine(self._stat, stat),
            _of_group(self._group, group, passed),
        )
        self._at, self._thread, self._stat, self._group = now, thread, stat, group
        self._running.clear()
        return Reading(cpu, self._lag())

    def _lag(self) -> float:
        """The worst but one of late: a single pause is no load."""
        worst = sorted(self._lags)
        return worst[-2] if len(worst) > 1 else sum(worst)

    def _of_machine(self, before: tuple[int, int], after: tuple[int, int]) -> float:
        """The busy part of its processors; if they are all busy, how many would be."""
        total = after[1] - before[1]
        busy = (after[0] - before[0]) / total if total > 0 else 0.0
        if busy < _SATURATED or not self._running:
            return busy
        return max(busy, sum(self._running) / len(self._running) / self._cores)


def _machine() -> tuple[int, int]:
    """Busy and all ticks of the machine's processors so far."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # idle, and waiting for a disk
    except (OSError, ValueError, IndexError):  # there is no such file here
        return 0, 0


def _runnable() -> int:
    """How many threads of the machine run or could run."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.readline().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 0


class _Group(msgspec.Struct, frozen=True):
    """What a cgroup has used of its processor time, and was refused, in seconds; and its quota."""

    used: float
    refused: float
    quota: float


_CGROUP = Path("/sys/fs/cgroup")


def _group(root: Path = _CGROUP) -> _Group | None:
    """This container's cgroup, if it has one with a limit."""
    try:
        quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
        if quota == "max":
            return None
        lines = (root / "cpu.stat").read_text(encoding="ascii").splitlines()
        stat = dict(line.split() for line in lines)
        refused = int(stat.get("throttled_usec", 0)) / 1e6
        return _Group(int(stat["usage_usec"]) / 1e6, refused, int(quota) / int(period))
    except (OSError, ValueError, KeyError, ZeroDivisionError):
        return None


def _of_group(before: _Group | None, after: _Group | None, passed: float) -> float:
    if before is None or after is None:
        return 0.0
    needed = after.used - before.used + after.refused - before.refused
    return needed / passed / after.quota
