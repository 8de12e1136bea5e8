"""Handlers that hold up their loop, or all of Python, in real time, with rivals for their jobs."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest

import bee_core as bee

from .held_up import FOR_EVER
from .support import Work, new_store

LEASE = 2.0
KEPT = ["sleep", "spin", "sleep_in_a_thread", "hold_the_gil_briefly", "wait"]


class Rivalry:
    """A worker in another process, and one here that would gladly take its jobs over."""

    def __init__(self, url: str, how: str) -> None:
        self.url = url
        self.how = how
        self.taken: list[str] = []

    async def __call__(self) -> dict[str, int]:
        """The events that the other worker heard."""
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(bee.connect(self.url))
            rival = bee.Worker(
                broker, self.how, Work, self._take, policy=FOR_EVER, poll=0.1, observers=()
            )
            await rival.queue.send(Work(), id=self.how)
            command = [sys.executable, "-m", "tests.worker.held_up"]
            process = await asyncio.create_subprocess_exec(
                *command, self.url, self.how, str(LEASE), self.how, stdout=asyncio.subprocess.PIPE
            )
            while not await broker.workers(self.how):
                assert process.returncode is None
                await asyncio.sleep(0.01)
            await stack.enter_async_context(rival.working())
            slow = asyncio.create_task(_slow_down(process)) if self.how == "wait" else None
            output, _ = await asyncio.wait_for(process.communicate(), 60)
            if slow is not None:
                slow.cancel()
            found = await broker.get(self.how, self.how)
            assert found is not None
            self.counters = found.counters
            return dict(json.loads(output))

    async def _take(self, job: Work, delivery: bee.Delivery[Work]) -> None:
        self.taken.append(delivery.id)


async def _slow_down(process: asyncio.subprocess.Process) -> None:
    """Let it have a fifth of the time, as a container with a small quota has."""
    while process.returncode is None:
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.08)
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.02)


async def test_the_lease_is_kept_for_three_times_its_length(request: pytest.FixtureRequest) -> None:
    """By whatever the handler holds up, and in a process that seldom has a processor."""
    url = new_store(request, "valkey")
    rivalries = [Rivalry(url, how) for how in KEPT]
    heard: list[dict[str, Any]] = await asyncio.gather(*(rivalry() for rivalry in rivalries))
    events = dict(zip(KEPT, heard, strict=True))

    assert {how: [] for how in KEPT} == {r.how: r.taken for r in rivalries}
    assert {how: bee.Counters(deliveries=1) for how in KEPT} == {
        r.how: r.counters for r in rivalries
    }
    assert [1] * len(KEPT) == [events[how]["AttemptSettled"] for how in KEPT]
    assert [0] * len(KEPT) == [events[how].get("AttemptLost", 0) for how in KEPT]
    assert 1 <= events["sleep"]["LoopBlocked"]
    assert 1 <= events["spin"]["LoopBlocked"]
    assert 0 == events["sleep_in_a_thread"].get("LoopBlocked", 0)


async def test_who_holds_the_gil_for_longer_than_the_lease_is_taken_over_and_fenced(
    request: pytest.FixtureRequest,
) -> None:
    """The limit: a heartbeat is Python too. The job runs twice, and is settled once."""
    rivalry = Rivalry(new_store(request, "pg"), "hold_the_gil_too_long")
    heard = await rivalry()

    assert ["hold_the_gil_too_long"] == rivalry.taken
    assert 0 == heard.get("AttemptSettled", 0)
    assert 1 == heard["AttemptLost"]
    assert bee.Counters(deliveries=2, stalls=1) == rivalry.counters
