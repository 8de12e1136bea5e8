"""A clock that tests move, so that a week of retries takes no time.

It serves any number of event loops at once, because a worker's heartbeat runs in a
thread with a loop of its own: `advance` fires every sleeper in order of time and lets
all of the program come to rest in between.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from itertools import count

from bee_core.clock import Alarm, finish
from bee_core.duration import Duration, seconds

_PATIENCE = 10.0
"""Real seconds to wait for another thread to come to rest before the test is at fault."""
_SHORTEST = 1e-6
"""A sleep shorter than this would not move the clock's number."""
_GIVE_WAY = 100
"""Turns to give way to a loop that cannot be asked whether it has something to do."""
_TURNS = 100_000
"""Turns of the event loop after which a program that never rests is at fault."""


class ManualClock:
    """Time that stands still until a test says otherwise. A `bee_core.clock.Clock`."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._now = start
        self._changed = threading.Condition()
        self._sleepers: dict[asyncio.Future[None], tuple[float, int]] = {}
        self._order = count()
        self._mover: asyncio.AbstractEventLoop | None = None
        self._awake: set[asyncio.AbstractEventLoop] = set()  # woken, and not yet asleep again

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
        else:
            await self.alarm().wait(seconds)

    def alarm(self) -> Alarm:
        return _ManualAlarm(self)

    async def advance(self, duration: Duration) -> None:
        """Move time forward, waking each sleeper at its own moment, and let everything settle."""
        target = self._now + seconds(duration, "duration")
        await self.settle()
        while self._wake_next(target):
            await self.settle()
        self._now = max(self._now, target)

    async def settle(self) -> None:
        """Return when nothing can happen any more without time moving on."""
        self._mover = asyncio.get_running_loop()
        await _idle()
        while self._await_others() or self._wake_next(self._now):
            await _idle()  # what the others handed over as they fell asleep

    def block(self, duration: Duration) -> None:
        """Move time forward while this thread's event loop stands still.

        For handlers under test that block: sleepers of other loops (heartbeats) fire on
        time, those of this loop only when it runs again.
        """
        target = self._now + seconds(duration, "duration")
        self._mover = asyncio.get_running_loop()
        self._await_others()
        while self._wake_next(target, but=asyncio.get_running_loop()):
            self._await_others()
        self._now = max(self._now, target)

    def _wake_next(self, target: float, but: asyncio.AbstractEventLoop | None = None) -> bool:
        """Go to the moment of the next sleeper and wake it; False if it is after `target`."""
        with self._changed:
            due = [
                (when, sleeper)
                for sleeper, when in self._sleepers.items()
                if when[0] <= target and sleeper.get_loop() is not but
            ]
            if not due:
                return False
            (when, _), sleeper = min(due, key=lambda item: item[0])
            self._now = max(self._now, when)
            self.wake(sleeper)
            return True

    def _await_others(self) -> bool:
        """Wait (blocking) until the loops of other threads rest; False if none was awake."""
        here = asyncio.get_running_loop()

        def others() -> bool:
            self._awake = {loop for loop in self._awake - {here} if not loop.is_closed()}
            return bool(self._awake)

        deadline = time.monotonic() + _PATIENCE
        with self._changed:
            if not others():
                return False
            while others():
                self._changed.wait(0.01)  # a loop that closes does not notify
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"another thread did not come to rest within {_PATIENCE:g} s of real time"
                    )
        return True

    def fall_asleep(self, sleeper: asyncio.Future[None], seconds: float) -> None:
        """A sleeper of the running loop is to be woken in `seconds`."""
        with self._changed:
            end = self._now + max(seconds, _SHORTEST)
            self._sleepers[sleeper] = (end, next(self._order))

    def wake(self, sleeper: asyncio.Future[None]) -> None:
        """Wake a sleeper, and know that its loop is busy until it sleeps again."""
        with self._changed:
            loop = sleeper.get_loop()
            if self._sleepers.pop(sleeper, None) is None or loop.is_closed():
                return
            loop.call_soon_threadsafe(finish, sleeper)
            if loop is not self._mover and loop not in self._awake:  # the mover sees to its own
                self._awake.add(loop)
                loop.call_soon_threadsafe(self._rest, loop)

    def _rest(self, loop: asyncio.AbstractEventLoop, turns: int = _GIVE_WAY) -> None:
        """Runs in a loop that was woken: note when it has nothing left to do."""
        with self._changed:
            ready = getattr(loop, "_ready", None)
            if loop is not self._mover and (ready or (ready is None and turns)):
                loop.call_soon(self._rest, loop, turns - 1)
            else:
                self._awake.discard(loop)
                self._changed.notify_all()

    def forget(self, sleeper: asyncio.Future[None]) -> None:
        """A sleeper was cancelled."""
        with self._changed:
            self._sleepers.pop(sleeper, None)


class _ManualAlarm:
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        with self._lock:
            if self._rung or seconds <= 0:
                self._rung = False
                return
            sleeper = self._sleeper = asyncio.get_running_loop().create_future()
            self._clock.fall_asleep(sleeper, min(seconds, math.inf))
        try:
            await sleeper
        finally:
            self._clock.forget(sleeper)
            with self._lock:
                self._rung, self._sleeper = False, None

    def ring(self) -> None:
        with self._lock:
            self._rung = True
            if self._sleeper is not None:
                self._clock.wake(self._sleeper)


async def _idle() -> None:
    """Give way until no other callback of this loop is ready to run."""
    ready = getattr(asyncio.get_running_loop(), "_ready", None)
    turns = _GIVE_WAY if ready is None else _TURNS
    for _ in range(turns):
        await asyncio.sleep(0)
        if ready is not None and not ready:
            return
    if ready is not None:
        raise RuntimeError("the program does not come to rest: something spins in the event loop")
