"""What a warm call of a process handler costs, against the least it could: a bare round trip.

    python -m benchmarks.processes [--calls 2000] [--rounds 7]

The bare one is a socket pair to a plain child that echoes what it is sent, by the same event loop.
Both are measured in turns; the ratio of a round is that of two measurements a moment apart. With anyio
installed its pool of processes is measured too.
"""

from __future__ import annotations

import argparse
import asyncio
import operator
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

from bee_core.processes import Processes

ECHO = "import os, sys\nfd = int(sys.argv[1])\nwhile data := os.read(fd, 65536): os.write(fd, data)"
Call = Callable[[], Awaitable[object]]


async def microseconds(call: Call, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        await call()
    return 1e6 * (time.perf_counter() - start) / calls


def bare(ours: socket.socket) -> Call:
    """A message there and back, of about the size of a small call."""
    loop, message = asyncio.get_running_loop(), b"x" * 60

    async def call() -> object:
        await loop.sock_sendall(ours, message)
        return await loop.sock_recv(ours, 65536)

    return call


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()

    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    command = [sys.executable, "-c", ECHO, str(theirs.fileno())]
    echo = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # noqa: ASYNC220
    theirs.close()
    processes = Processes(1)
    calls: dict[str, Call] = {
        "bare": bare(ours),
        "bee": lambda: processes.run(operator.add, 1, 2),
    }
    try:
        import anyio.to_process  # type: ignore[import-not-found, unused-ignore]

        calls["anyio"] = lambda: anyio.to_process.run_sync(operator.add, 1, 2)
    except ImportError:
        pass

    start = time.perf_counter()
    await processes.run(operator.add, 1, 2)
    print(f"first call, which starts a child: {1e3 * (time.perf_counter() - start):.0f} ms")
    took: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        await microseconds(call, 50)
    for _ in range(options.rounds):
        for name, call in calls.items():
            took[name].append(await microseconds(call, options.calls))
    for name, times in took.items():
        ratio = statistics.median(x / y for x, y in zip(times, took["bare"], strict=True))
        best, median = min(times), statistics.median(times)
        print(f"{name:6} best {best:6.0f} us, median {median:6.0f} us, {ratio:5.2f} x bare")
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    await processes.aclose()
    ours.close()
    echo.wait()


if __name__ == "__main__":
    asyncio.run(main())
