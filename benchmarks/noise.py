"""What the machine is, and what else it does meanwhile."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def model() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def kernel() -> str:
    return f"{platform.system()} {platform.release()}"


def load() -> float:
    return os.getloadavg()[0]


def busy() -> float:
    """Seconds for which the processors have worked for anybody, since the machine was started."""
    first = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
    user, nice, system, _, _, irq, softirq, *_ = (int(word) for word in first.split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def family_cpu(process: int) -> float:
    """Seconds of processor time of a process and its descendants, in steps of 10 ms.

    Also of those that have ended. Read by hand, because it is asked for in the middle of measuring.
    """
    ticks, family = 0, [process]
    while family:
        folder = Path(f"/proc/{family.pop()}")
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
            for thread in (folder / "task").iterdir():
                family += [int(child) for child in (thread / "children").read_text().split()]
    return ticks / os.sysconf("SC_CLK_TCK")


class Others:
    """Measures how many processors others use, from its making on.

    `ours` says how many seconds of processor time our own processes have used.
    """

    def __init__(self, ours: Callable[[], float]) -> None:
        self._ours = ours
        self._began = (time.monotonic(), busy(), self._all_ours())

    def used(self) -> float:
        """Processors, on average. What is not ours, so never less than none."""
        wall, all_busy, ours = (
            now - then
            for now, then in zip(
                (time.monotonic(), busy(), self._all_ours()), self._began, strict=True
            )
        )
        return max(0.0, (all_busy - ours) / wall) if wall > 0.1 else 0.0

    def _all_ours(self) -> float:
        return self._ours() + time.process_time()
