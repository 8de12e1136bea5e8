"""The clock that tests move, with event loops in other threads: all are served and waited for."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bee_core.testing import ManualClock
from bee_core.testing import clock as clock_module

from .support import until


@contextmanager
def sleeper_elsewhere(clock: ManualClock, *seconds: float) -> Iterator[list[float]]:
    """A thread with a loop of its own that sleeps so long, one after the other; when it woke."""
    woke: list[float] = []
    start = clock.now()
    asleep = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def nap() -> None:
        for length in seconds:
            await clock.sleep(length)
            woke.append(clock.now() - start)

    async def program() -> None:
        task = asyncio.create_task(nap())
        running.append((asyncio.get_running_loop(), task))
        await asyncio.sleep(0)
        asleep.set()
        await asyncio.wait({task})

    thread = threading.Thread(target=lambda: asyncio.run(program()), daemon=True)
    thread.start()
    asleep.wait(5)
    try:
        yield woke
    finally:
        loop, task = running[0]
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        thread.join(5)


async def test_a_loop_in_another_thread_is_served_and_waited_for(bee_clock: ManualClock) -> None:
    with sleeper_elsewhere(bee_clock, 1, 1, 1, 10) as woke:
        await bee_clock.advance(5)

        assert [1, 2, 3] == woke


async def test_loops_in_several_threads_wake_in_order_of_time(bee_clock: ManualClock) -> None:
    with (
        sleeper_elsewhere(bee_clock, 1, 2, 2) as odd,
        sleeper_elsewhere(bee_clock, 2, 2, 9) as even,
    ):
        await bee_clock.advance(4)
        assert ([1, 3], [2, 4]) == (odd, even)
        await bee_clock.advance(1)
        assert ([1, 3, 5], [2, 4]) == (odd, even)


async def test_a_loop_elsewhere_rests_when_all_that_is_left_of_it_sleeps(
    bee_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "_PATIENCE", 0.1)
    asleep = threading.Event()

    async def program() -> None:
        naps = [asyncio.create_task(bee_clock.sleep(length)) for length in (1, 5)]
        await asyncio.sleep(0)
        asleep.set()
        await asyncio.wait(naps)

    thread = threading.Thread(target=lambda: asyncio.run(program()), daemon=True)
    thread.start()
    await until(asleep.is_set)
    trouble = ""
    for _ in range(4):
        try:
            await bee_clock.advance(3)
        except RuntimeError as error:
            trouble = str(error)
            bee_clock._awake.clear()
    await until(lambda: not thread.is_alive())

    assert "" == trouble


async def test_a_blocked_loop_lets_others_go_on_and_its_own_sleepers_wait(
    bee_clock: ManualClock,
) -> None:
    here: list[float] = []
    start = bee_clock.now()

    async def sleep() -> None:
        await bee_clock.sleep(2)
        here.append(bee_clock.now() - start)

    task = asyncio.create_task(sleep())
    await asyncio.sleep(0)
    with sleeper_elsewhere(bee_clock, 1, 1, 1) as woke:
        bee_clock.block(10)
        assert ([1, 2, 3], []) == (woke, here)
        await bee_clock.advance(0)

        assert [10] == here
        await task


async def test_a_thread_that_never_rests_is_found_out(
    bee_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "_PATIENCE", 0.05)
    over, asleep = threading.Event(), threading.Event()

    async def program() -> None:
        nap = asyncio.create_task(bee_clock.sleep(1))
        await asyncio.sleep(0)
        asleep.set()
        await nap
        while not over.is_set():
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    await until(asleep.is_set)
    try:
        with pytest.raises(RuntimeError, match="did not come to rest"):
            await bee_clock.advance(2)
    finally:
        over.set()
        thread.join()


async def test_a_loop_that_was_closed_is_forgotten(bee_clock: ManualClock) -> None:
    async def abandon() -> None:
        asyncio.get_running_loop().create_task(bee_clock.sleep(5))
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(abandon()))
    thread.start()
    thread.join()
    await bee_clock.advance(10)


async def test_two_sleepers_of_a_loop_elsewhere_may_be_woken_at_once(
    bee_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "_PATIENCE", 0.2)
    alarms = [bee_clock.alarm(), bee_clock.alarm()]
    last, asleep = bee_clock.alarm(), threading.Event()

    async def program() -> None:
        waits = [asyncio.create_task(alarm.wait(math.inf)) for alarm in (*alarms, last)]
        await asyncio.sleep(0)
        asleep.set()
        await asyncio.wait(waits)

    thread = threading.Thread(target=lambda: asyncio.run(program()), daemon=True)
    thread.start()
    await until(asleep.is_set)
    await bee_clock.settle()
    for alarm in alarms:
        alarm.ring()
    trouble = ""
    try:
        await bee_clock.settle()
    except RuntimeError as error:
        trouble = str(error)
    last.ring()
    thread.join(5)

    assert "" == trouble
