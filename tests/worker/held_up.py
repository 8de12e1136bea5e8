"""Handlers that hold their process up, run in one of their own on a store that others share.

`python -m tests.worker.held_up URL QUEUE LEASE HOW`; prints the events that were heard, by name.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
import time
from collections import Counter
from collections.abc import Callable

import bee_core as bee

from .support import Work

FOR_EVER = bee.Policy(timeout=None, on_success=bee.Archive(), on_stall=bee.Repeat(None))


def hold_the_gil(seconds: float) -> None:
    """Nothing of Python runs meanwhile, in whatever thread: a C function that does not let go."""
    ctypes.PyDLL(None).usleep(ctypes.c_uint(round(seconds * 1e6)))


def handler_that(how: str, lease: float) -> Callable[[Work], object]:
    async def sleep(job: Work) -> None:
        time.sleep(3 * lease)  # noqa: ASYNC251

    async def spin(job: Work) -> None:
        until = time.monotonic() + 3 * lease
        while time.monotonic() < until:
            pass

    def sleep_in_a_thread(job: Work) -> None:
        time.sleep(3 * lease)

    async def hold_the_gil_briefly(job: Work) -> None:
        for _ in range(4):
            hold_the_gil(lease / 2)
            time.sleep(lease / 4)  # noqa: ASYNC251  # the loop is blocked, the GIL is not held

    async def hold_the_gil_too_long(job: Work) -> None:
        hold_the_gil(3 * lease)

    async def wait(job: Work) -> None:
        await asyncio.sleep(3 * lease)

    blocking = (sleep, spin, sleep_in_a_thread, hold_the_gil_briefly, hold_the_gil_too_long)
    return {handler.__name__: handler for handler in (*blocking, wait)}[how]


async def main(url: str, queue: str, lease: str, how: str) -> None:
    heard: Counter[str] = Counter()

    def observe(event: bee.Event) -> None:
        heard[type(event).__name__] += 1

    async with bee.connect(url) as broker:
        worker = bee.Worker(
            broker,
            queue,
            Work,
            handler_that(how, float(lease)),
            policy=FOR_EVER,
            lease=float(lease),
            observers=(observe,),
        )
        await worker.run(max_jobs=1)
    print(json.dumps(heard))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
