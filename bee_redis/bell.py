"""Waiting for a wake-up without ever holding a message.

One task per queue pops wake-ups while somebody waits here, and hands each to one waiter. A waiter
that leaves, by timeout or cancellation, touches no connection; a wake-up that finds nobody here
goes back to the server, for somebody elsewhere. Losing one costs a poll, never a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from bee_core.errors import BrokerClosed, BrokerError
from bee_redis.connection import Link

_BLOCK = 10.0
"""Seconds that one BLPOP may wait: longer than any poll, so an idle worker sends few commands."""


class Bell:
    """The wake-ups of one queue, for everybody in this event loop."""

    def __init__(self, link: Link, key: bytes, *, deadline: float) -> None:
        self._link = link
        self._key = key
        self._deadline = deadline
        self._owed = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Task[None] | None = None

    async def wait(self, timeout: float) -> None:
        """Return at a wake-up, or after `timeout`; raise if the server cannot be reached."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._listen()
        try:
            await asyncio.wait({waiter}, timeout=timeout)
        except asyncio.CancelledError:
            if waiter.done() and waiter.exception() is None:
                self.pass_on()  # it was woken, and somebody must look
            raise
        finally:
            if not waiter.done():
                self._waiters.remove(waiter)
                waiter.cancel()
        if not waiter.cancelled():
            waiter.result()

    async def aclose(self) -> None:
        """Stop listening, and send those away who wait."""
        self._fail(BrokerClosed("this RedisBroker was closed"))
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def _listen(self) -> None:
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(), name="bee:bell")

    async def _read(self) -> None:
        try:
            while self._waiters or self._owed:
                if self._owed:
                    self._owed -= 1
                    with suppress(BrokerError):  # what it costs is a poll
                        await self._link.call(
                            self._key, b"RPUSH", self._key, b"1", deadline=self._deadline
                        )
                    continue
                deadline = _BLOCK + self._deadline
                woken = await self._link.call(
                    self._key, b"BLPOP", self._key, _BLOCK, deadline=deadline
                )
                if woken:
                    self.pass_on()
        except Exception as error:  # whatever it is, those who wait are to hear of it
            self._fail(error)

    def pass_on(self) -> None:
        """Wake somebody here, or else somebody elsewhere."""
        if self._waiters:
            self._waiters.popleft().set_result(None)
        else:
            self._owed += 1
            self._listen()

    def _fail(self, error: Exception) -> None:
        while self._waiters:
            self._waiters.popleft().set_exception(error)
