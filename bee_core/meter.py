"""How loaded a worker, its process and its machine are: what `Auto` decides by."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

SAMPLE = 0.05
"""Seconds between two looks."""
_MOST = 0.75
"""The part of the samples that is not above what is read as lag: a single pause is no load."""
_SATURATED = 0.95
"""Part of the processors from which on it matters how many wait for one."""
_ALL = os.cpu_count() or 1
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


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
    """Measures the event loop that it runs in, its process with its children, and their cgroup.

    A loop is one thread, so what it uses is measured against one processor, and what the process
    and its children use against all of them. Where all processors of the machine are busy, whoever
    it is that keeps them so, what is used is less than what is needed, by as much as threads have
    to wait. The scarcest counts.
    """

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._runnable: list[int] = []
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._last = _Sample.take()

    async def run(self) -> None:
        """Take samples for ever."""
        while True:
            due = time.monotonic() + SAMPLE
            await asyncio.sleep(SAMPLE)
            self._lags.append(max(0.0, time.monotonic() - due))
            self._runnable.append(_runnable())

    def read(self) -> Reading:
        before, after = self._last, _Sample.take()
        self._last = after
        passed = max(after.at - before.at, 1e-3)
        own = (after.family - before.family) / passed / self._cores
        cpu = max(
            (after.thread - before.thread) / passed,
            own * self._crowd(before, after),
            _of_group(before.group, after.group, passed),
        )
        lags = sorted(self._lags)
        self._lags.clear()
        self._runnable.clear()
        return Reading(cpu, lags[int(_MOST * (len(lags) - 1))] if lags else 0.0)

    def _crowd(self, before: _Sample, after: _Sample) -> float:
        """How many threads there are for a processor, if all of those are busy."""
        ticks = after.ticks - before.ticks
        if ticks <= 0 or (after.busy - before.busy) / ticks < _SATURATED or not self._runnable:
            return 1.0
        return max(1.0, sum(self._runnable) / len(self._runnable) / _ALL)


class _Group(msgspec.Struct, frozen=True):
    """What a cgroup has used of its processor time, and was refused, in seconds; and its quota."""

    used: float
    refused: float
    quota: float


class _Sample(msgspec.Struct, frozen=True):
    """What the counters say: seconds of this thread and this family, ticks of the machine."""

    at: float
    thread: float
    family: float
    busy: int
    ticks: int
    group: _Group | None

    @classmethod
    def take(cls) -> _Sample:
        busy, ticks = _machine()
        return cls(time.monotonic(), time.thread_time(), _family(), busy, ticks, _group())


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


def _family() -> float:
    """Seconds of processor time of this process and of all that descend from it, dead or alive."""
    spent = sum(os.times()[:4])
    left = list(_children("self"))
    while left:
        pid = left.pop()
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        spent += sum(int(field) for field in fields[11:15]) / _TICK
        left += _children(pid)
    return spent


def _children(pid: str) -> Iterator[str]:
    """The processes that a process has started, by whichever of its threads."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            yield from file.read().decode("ascii").split()


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
