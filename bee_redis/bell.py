"""Waiting for a wake-up without ever holding a message.

One task per queue pops wake-ups while somebody waits here, and hands each to one waiter; another is
woken when something is due. A waiter that leaves, by timeout or cancellation, touches no
connection; a wake-up that finds nobody here goes back to the server, for somebody elsewhere.
Losing one costs a poll, never a message.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import suppress

from bee_core.errors import BrokerClosed, BrokerError
from bee_redis.connection import Link
from bee_redis.resp import pack

_SHORTEST = 0.1
"""Seconds that one BLPOP waits at least: zero would be for ever."""
SLACK = 1.0
"""Seconds after its time in which a server sees that it is over, even one that seldom looks."""
_LONGEST = 10.0
"""Seconds that one BLPOP may wait: longer than any poll, so an idle worker sends few commands."""


class Bell:
    """The wake-ups of one queue, for everybody in this event loop.

    `lingers`: it goes on listening for a while when nobody waits, as somebody soon will.
    """

    def __init__(self, link: Link, key: bytes, *, deadline: float, lingers: bool) -> None:
        self._link = link
        self._lingers = lingers
        self._key = key
        self._push = pack(b"RPUSH", key, b"1")
        self._deadline = deadline
        self._owed = 0
        """Wake-ups for somebody elsewhere, that the server is yet to hear of."""
        self._alarm: asyncio.TimerHandle | None = None
        self._waiters: deque[asyncio.Future[bool]] = deque()  # whether it was woken
        self._reader: asyncio.Task[None] | None = None
        self._giver: asyncio.Task[None] | None = None

    async def wait(self, timeout: float, due: float = math.inf) -> None:
        """Return at a wake-up, or after `timeout`; raise if the server cannot be reached.

        due   when something will be ready by itself, as far as is known by now
        """
        if self._owed:
            self._owed -= 1
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.append(waiter)
        self._listen(timeout)
        self.expect(due)
        alarm = loop.call_later(timeout, self._give_up, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._leave(waiter)
            elif waiter.exception() is None and waiter.result():
                self.pass_on()  # it was woken, and somebody must look
            raise
        finally:
            alarm.cancel()

    async def aclose(self) -> None:
        """Stop listening, and send those away who wait."""
        self._fail(BrokerClosed("this RedisBroker was closed"))
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = [task for task in (self._reader, self._giver) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def expect(self, due: float) -> None:
        """Something will be ready then by itself, by the loop's clock: wake somebody who waits."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiters and due < math.inf:
            self._alarm = asyncio.get_running_loop().call_at(due, self._wake)

    def _listen(self, timeout: float) -> None:
        if self._reader is None or self._reader.done():
            block = _LONGEST if self._lingers else min(max(timeout, _SHORTEST), _LONGEST)
            self._reader = asyncio.create_task(self._read(block), name="bee:bell")

    async def _read(self, block: float) -> None:
        try:
            pop = pack(b"BLPOP", self._key, block)
            while self._waiters:
                until = asyncio.get_running_loop().time() + block + SLACK + self._deadline
                woken = await self._link.call(self._key, pop, until=until)
                if woken:
                    self.pass_on()
        except Exception as error:  # whatever it is, those who wait are to hear of it
            self._fail(error)

    def pass_on(self) -> None:
        """Wake somebody here, or else somebody elsewhere."""
        if not self._wake():
            self._owed += 1
            if self._giver is None or self._giver.done():
                self._giver = asyncio.create_task(self._give(), name="bee:ring")

    async def _give(self) -> None:
        while self._owed:
            self._owed -= 1
            until = asyncio.get_running_loop().time() + self._deadline
            with suppress(BrokerError):  # what it costs is a poll
                await self._link.call(self._key, self._push, until=until)

    def _wake(self) -> bool:
        """Wake somebody here, if anybody waits."""
        while self._waiters:
            if not (waiter := self._waiters.popleft()).done():  # else it is about to leave
                waiter.set_result(True)
                return True
        return False

    def _give_up(self, waiter: asyncio.Future[bool]) -> None:
        if not waiter.done():
            self._leave(waiter)
            waiter.set_result(False)

    def _leave(self, waiter: asyncio.Future[bool]) -> None:
        with suppress(ValueError):  # somebody may have looked past it already
            self._waiters.remove(waiter)

    def _fail(self, error: Exception) -> None:
        while self._waiters:
            if not (waiter := self._waiters.popleft()).done():
                waiter.set_exception(error)
