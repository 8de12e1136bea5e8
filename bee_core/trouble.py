"""Trouble that is not the job's: a broker that fails, a task that is cancelled at a bad moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from bee_core.clock import Alarm, Clock
from bee_core.errors import BrokerUnavailable

FIRST = 0.1
LONGEST = 2.0


def own_cancellation(error: BaseException) -> bool:
    """Whether an exception means that the running task was told to stop, and by nobody's mistake.

    A CancelledError that no `cancel()` of this task explains has leaked from a driver, and is
    trouble like any other. Exits are never taken for trouble.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return not isinstance(error, Exception)


async def uninterrupted(work: Coroutine[None, None, None]) -> None:
    """Do this to its end, however often the task is cancelled meanwhile; then honour that."""
    task = asyncio.create_task(work, name="bee:closing")
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class Trouble:
    """The back-off of one worker's calls, verb by verb."""

    def __init__(
        self,
        clock: Clock,
        random: Callable[[], float],
        *,
        on_begin: Callable[[str, Exception], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._random = random
        self._on_begin = on_begin
        self._on_end = on_end
        self.failures: dict[str, int] = {}
        """How often each verb has failed that fails at the moment."""
        self._alarms: dict[str, Alarm] = {}

    async def back_off(self, verb: str, error: BaseException) -> None:
        """The verb failed: wait before it is tried again (full jitter, up to 2 s)."""
        if not isinstance(error, Exception):
            error = BrokerUnavailable(repr(error))
        failures = self.failures[verb] = self.failures.get(verb, 0) + 1
        if failures == 1:
            self._on_begin(verb, error)
        longest = min(LONGEST, FIRST * 2.0 ** min(failures - 1, 10))
        alarm = self._alarms.setdefault(verb, self._clock.alarm())
        await alarm.wait(max(0.01, longest * self._random()))

    def over(self, verb: str) -> None:
        """The verb worked."""
        if self.failures.pop(verb, 0):
            self._on_end(verb)

    def hurry(self) -> None:
        """Cut every back-off under way short."""
        for alarm in self._alarms.values():
            alarm.ring()
