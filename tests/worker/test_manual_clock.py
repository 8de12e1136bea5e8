"""The clock that tests move: what fires, in what order, in which loop, and what it refuses."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress
from datetime import timedelta

import pytest

import bee_core as bee
from bee_core.clock import SystemClock
from bee_core.testing import ManualClock
from bee_core.testing import clock as clock_module


async def test_time_stands_still_until_it_is_moved(bee_clock: ManualClock) -> None:
    start = bee_clock.now()
    await asyncio.sleep(0.01)
    assert start == bee_clock.now()
    await bee_clock.advance(1.5)
    await bee_clock.advance(timedelta(minutes=1))

    assert start + 61.5 == bee_clock.now()


async def test_sleepers_wake_in_order_of_time_each_at_its_own_moment(
    bee_clock: ManualClock,
) -> None:
    start = bee_clock.now()
    woke: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await bee_clock.sleep(seconds)
        woke.append((name, bee_clock.now() - start))

    tasks = [
        asyncio.create_task(sleep(name, seconds))
        for name, seconds in [("c", 3), ("a", 1), ("late", 11), ("b", 2), ("a2", 1)]
    ]
    await bee_clock.advance(10)

    assert [("a", 1), ("a2", 1), ("b", 2), ("c", 3)] == woke
    await bee_clock.advance(1)
    await asyncio.gather(*tasks)


async def test_what_a_sleeper_starts_on_waking_is_part_of_the_same_advance(
    bee_clock: ManualClock,
) -> None:
    start = bee_clock.now()
    ticks: list[float] = []

    async def tick() -> None:
        for _ in range(5):
            await bee_clock.sleep(2)
            ticks.append(bee_clock.now() - start)

    task = asyncio.create_task(tick())
    await bee_clock.advance(7)
    assert [2, 4, 6] == ticks
    await bee_clock.advance(3)
    assert [2, 4, 6, 8, 10] == ticks
    await task


async def test_sleeping_for_no_time_gives_way_once(bee_clock: ManualClock) -> None:
    seen: list[str] = []

    async def other() -> None:
        seen.append("other")

    task = asyncio.create_task(other())
    await bee_clock.sleep(0)
    await bee_clock.sleep(-1)
    seen.append("sleeper")

    assert ["other", "sleeper"] == seen
    await task


async def test_time_does_not_move_backwards(bee_clock: ManualClock) -> None:
    with pytest.raises(bee.InvalidOption):
        await bee_clock.advance(-1)


async def test_an_advance_within_an_advance_does_not_set_time_back(bee_clock: ManualClock) -> None:
    start = bee_clock.now()

    async def blocker() -> None:
        await bee_clock.sleep(5)
        bee_clock.block(100)

    task = asyncio.create_task(blocker())
    await bee_clock.advance(10)
    await task

    assert start + 105 == bee_clock.now()


async def test_a_sleeper_that_is_cancelled_is_forgotten(bee_clock: ManualClock) -> None:
    task = asyncio.create_task(bee_clock.sleep(5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bee_clock.advance(10)

    assert {} == bee_clock._sleepers


@pytest.mark.parametrize("kind", [ManualClock, SystemClock])
async def test_an_alarm_that_rings_ends_the_wait(kind: type[ManualClock | SystemClock]) -> None:
    alarm = kind().alarm()
    waiting = asyncio.create_task(alarm.wait(math.inf))
    await asyncio.sleep(0)
    alarm.ring()
    await waiting


@pytest.mark.parametrize("kind", [ManualClock, SystemClock])
async def test_an_alarm_that_rang_before_ends_the_next_wait_at_once_and_only_that(
    kind: type[ManualClock | SystemClock],
) -> None:
    alarm = kind().alarm()
    alarm.ring()
    alarm.ring()
    await alarm.wait(math.inf)
    waiting = asyncio.create_task(alarm.wait(math.inf))
    await asyncio.sleep(0.005)
    assert not waiting.done()
    alarm.ring()
    await waiting


@pytest.mark.parametrize("kind", [ManualClock, SystemClock])
async def test_an_alarm_may_be_rung_from_another_thread(
    kind: type[ManualClock | SystemClock],
) -> None:
    alarm = kind().alarm()
    waiting = asyncio.create_task(alarm.wait(math.inf))
    await asyncio.sleep(0)
    thread = threading.Thread(target=alarm.ring)
    thread.start()
    await asyncio.wait_for(waiting, 5)
    thread.join()


@pytest.mark.parametrize("kind", [ManualClock, SystemClock])
async def test_an_alarm_whose_wait_was_cancelled_can_be_waited_for_again(
    kind: type[ManualClock | SystemClock],
) -> None:
    alarm = kind().alarm()
    waiting = asyncio.create_task(alarm.wait(math.inf))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    again = asyncio.create_task(alarm.wait(math.inf))
    await asyncio.sleep(0)
    alarm.ring()
    await asyncio.wait_for(again, 5)


async def test_an_alarm_of_the_system_clock_ends_by_itself() -> None:
    clock = SystemClock()
    before = clock.now()
    await clock.alarm().wait(0.01)
    await clock.sleep(0.01)

    assert clock.now() - before >= 0.019


async def test_an_alarm_of_a_moved_clock_ends_by_itself(bee_clock: ManualClock) -> None:
    waiting = asyncio.create_task(bee_clock.alarm().wait(5))
    await bee_clock.advance(4.9)
    assert not waiting.done()
    await bee_clock.advance(0.1)
    await waiting


async def test_a_sleeper_that_is_overdue_wakes_without_time_moving_on(
    bee_clock: ManualClock,
) -> None:
    task = asyncio.create_task(bee_clock.sleep(2))
    await asyncio.sleep(0)
    bee_clock.block(10)
    await bee_clock.settle()
    done = task.done()
    await bee_clock.advance(0)
    await task

    assert done


async def test_a_program_that_never_rests_is_found_out(
    bee_clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_module, "_TURNS", 1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    task = asyncio.create_task(spin())
    with pytest.raises(RuntimeError, match="does not come to rest"):
        await bee_clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_sleep_too_short_to_be_measured_does_not_hang_the_test() -> None:
    """In a thread of its own, so that the test ends whatever happens."""
    ended = threading.Event()
    give_up = threading.Event()

    async def program() -> None:
        clock = ManualClock()

        async def tick() -> None:
            while not give_up.is_set():
                await clock.sleep(1e-9)

        task = asyncio.create_task(tick())
        with suppress(RuntimeError):  # being told is as good
            await clock.advance(0.001)
        ended.set()
        task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(program()))
    thread.start()
    in_time = ended.wait(1)
    give_up.set()
    thread.join()

    assert in_time
