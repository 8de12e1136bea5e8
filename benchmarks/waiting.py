"""How many waits of 5 ms a bare loop makes in a second, with so many tasks: what waiting allows.

    python -m benchmarks.waiting 100

Timers are not exact: a wait of 5 ms takes somewhat longer, in every library alike.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import uvloop

AWAITED = 0.005
_SECONDS = 1.0


def rate_of_waiting(at_once: int) -> float:
    """Measured here and now, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.waiting", str(at_once)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def measure(at_once: int) -> float:
    waits = int(_SECONDS / AWAITED)

    async def wait() -> None:
        for _ in range(waits):
            await asyncio.sleep(AWAITED)

    began = time.perf_counter()
    await asyncio.gather(*(wait() for _ in range(at_once)))
    return at_once * waits / (time.perf_counter() - began)


if __name__ == "__main__":
    print(uvloop.run(measure(int(sys.argv[1]))))
