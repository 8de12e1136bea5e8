"""A clock that tests move, so that a week of retries takes no time.

It serves any number of event loops at once, because a worker's heartbeat runs in a
thread with a loop of its own: `advance` fires every sleeper in order of time and lets
all of the program come to rest in between.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from itertools import count

from bee_core.duration import Duration, seconds

_PATIENCE = 10.0
"""Real seconds to wait for another thread to come to rest before the test is at fault."""


class ManualClock:
    """Time that stands still until a test says otherwise. A `bee_core.clock.Clock`."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self._awake: set[asyncio.AbstractEventLoop] = set()  # woken, and not yet asleep again

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            entry = (self._now + seconds, next(self._order), future)
            heapq.heappush(self._sleepers, entry)
            self._awake.discard(loop)
        try:
            await future
        finally:
            with self._lock:
                if entry in self._sleepers:
                    self._sleepers.remove(entry)
                    heapq.heapify(self._sleepers)

    async def advance(self, duration: Duration) -> None:
        """Move time forward, waking each sleeper at its own moment, and let everything settle."""
        target = self._now + seconds(duration, "duration")
        await self.settle()
        while self._wake_next(target):
            await self.settle()
        self._now = target

    async def settle(self) -> None:
        """Return when nothing can happen any more without time moving on."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            await _idle()
            if not self._others_awake():
                await _idle()  # what the others handed over as they fell asleep
                return
            self._check(deadline)
            await asyncio.sleep(0.0005)

    def block(self, duration: Duration) -> None:
        """Move time forward while this thread's event loop stands still.

        For handlers under test that block: sleepers of other loops (heartbeats) fire on
        time, those of this loop only when it runs again.
        """
        here = asyncio.get_running_loop()
        target = self._now + seconds(duration, "duration")
        while self._wake_next(target, but=here):
            deadline = time.monotonic() + _PATIENCE
            while self._others_awake():
                self._check(deadline)
                time.sleep(0.0005)
        self._now = target

    def _wake_next(self, target: float, but: asyncio.AbstractEventLoop | None = None) -> bool:
        """Go to the moment of the next sleeper and wake it; False if it is after `target`."""
        with self._lock:
            due = [e for e in self._sleepers if e[0] <= target and e[2].get_loop() is not but]
            if not due:
                return False
            entry = min(due)
            self._sleepers.remove(entry)
            heapq.heapify(self._sleepers)
            when, _, future = entry
            self._now = max(self._now, when)
            loop = future.get_loop()
            if loop.is_closed():
                return True
            self._awake.add(loop)
        loop.call_soon_threadsafe(_finish, future)
        return True

    def _others_awake(self) -> bool:
        here = asyncio.get_running_loop()
        with self._lock:
            self._awake = {
                loop for loop in self._awake if not loop.is_closed() and loop is not here
            }
            return bool(self._awake)

    def _check(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"another thread did not come to rest within {_PATIENCE:g} s of real time"
            )


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _idle() -> None:
    """Give way until no other callback of this loop is ready to run."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    if ready is None:  # not asyncio's own loop: give way generously instead
        for _ in range(100):
            await asyncio.sleep(0)
        return
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)
