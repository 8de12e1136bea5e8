"""How one broker waits for one queue: when it looks again, and when it is listed as idle.

Who waits is listed first (`rest.sql`) and looks once more after that (`upcoming.sql`), so that no
message can slip between the two. Where no notification arrives it looks again and again. What is
found is not touched here: that is for `lease`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from psycopg.rows import TupleRow

from bee_pg.bell import Bell
from bee_pg.line import Line

_BUSY = 10
"""Messages in one lease that show there is enough to do."""
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 1.0
_LEAST_DOUBT = 0.01
"""Seconds to the second look at what is ready and was not leased; the first is at once."""


class Waiting:
    """One queue, as one broker waits for it.

    run     calls a function of bee's schema on this queue: its name, types and arguments
    renew   seconds after which one who waits sees to it that he is still listed as idle
    """

    def __init__(
        self, queue: str, run: Callable[..., Awaitable[list[TupleRow]]], line: Line, *, renew: float
    ) -> None:
        self._queue = queue
        self._run = run
        self._line = line
        self._renew = renew
        self._much_to_do = False
        self._step = _SHORTEST_POLL
        self._doubt = 0.0
        self._quiet_until = 0.0

    async def listen(self, bell: Bell, timeout: float) -> None:
        """Return at a notification, when something is due, or after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        until, pause, woken = loop.time() + timeout, self._renew, False
        while pause == self._renew and not woken:
            waiter = bell.expect(self._queue)
            try:
                await self._rest(bell)
                pause = min(await self._pause(), self._renew, max(until - loop.time(), 0.0))
            except BaseException:
                bell.dismiss(self._queue, waiter)
                raise
            woken = await bell.wait(self._queue, waiter, pause)

    async def poll(self, timeout: float) -> None:
        """Look again and again, ever less often until a lease has found something."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while (left := until - loop.time()) > 0:
            step = self._step
            self._step = min(2 * step, _LONGEST_POLL)
            pause = await self._pause()
            await asyncio.sleep(min(left, step, pause))
            if pause <= step:
                return

    def leased(self, count: int, quiet: float) -> None:
        """Remember how much a lease has found, and for how long a rate allows no more."""
        self._quiet_until = asyncio.get_running_loop().time() + quiet if quiet > 0 else 0.0
        self._much_to_do = count >= _BUSY
        if count:
            self._step, self._doubt = _SHORTEST_POLL, 0.0

    def rise(self, bell: Bell | None) -> str | None:
        """Wait no longer, if there was much to do: the channel that `lease.sql` is to unlist."""
        if bell is None or not self._much_to_do or bell.is_awaited(self._queue):
            return None
        return bell.channel if bell.resting.pop(self._queue, None) is not None else None

    def risen(self, bell: Bell | None, channel: str | None) -> None:
        """A lease has unlisted us. Who has begun to wait meanwhile is to be listed again."""
        if bell is not None and channel is not None and bell.is_awaited(self._queue):
            bell.resting.pop(self._queue, None)
            bell.wake(self._queue)

    async def _rest(self, bell: Bell) -> None:
        """Be listed as idle, unless that still holds for a while."""
        await bell.risen()
        now = asyncio.get_running_loop().time()
        if bell.resting.get(self._queue, 0.0) < now + 1.2 * self._renew:
            await self._run("rest", "%b::text, %b::float8", bell.channel, 2 * self._renew)
            bell.resting[self._queue] = now + 2 * self._renew

    async def _pause(self) -> float:
        """Seconds until it is worth while to look.

        What is ready and yet was not leased is locked by somebody, for as long as he likes.
        """
        upcoming = await self._upcoming()
        if self._quiet_until:
            upcoming = max(upcoming, self._quiet_until - asyncio.get_running_loop().time())
        if upcoming > 0:
            self._doubt = 0.0
            return upcoming
        doubt = self._doubt
        self._doubt = min(max(2 * doubt, _LEAST_DOUBT), _LONGEST_POLL)
        return doubt

    async def _upcoming(self) -> float:
        """Seconds until something may be ready."""
        reach = self._line.reach(asyncio.get_running_loop().time())
        rows = await self._run("upcoming", "%b::float8[], %b::float8", *reach)
        return math.inf if not rows or rows[0][0] is None else float(rows[0][0])
