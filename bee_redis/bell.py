"""Waiting for a wake-up without ever holding a message.

One task per queue pops wake-ups while somebody waits here, and hands each to one waiter. A waiter
that leaves, by timeout or cancellation, touches no connection; a wake-up that finds nobody is kept
for the next one. Losing one costs a poll, never a message.
"""

from __future__ import annotations

import asyncio
from collections import deque

from bee_core.errors import BrokerError
from bee_redis.connection import Link

_BLOCK = 10.0
"""Seconds that one BLPOP may wait: longer than any poll, so an idle worker sends few commands."""


class Bell:
    """The wake-ups of one queue, for everybody in this event loop."""

    def __init__(self, link: Link, key: bytes, *, deadline: float) -> None:
        self._link = link
        self._key = key
        self._deadline = deadline
        self._rung = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._reader: asyncio.Task[None] | None = None

    async def wait(self, timeout: float) -> None:
        """Return at a wake-up, or after `timeout`; raise if the server cannot be reached."""
        if self._rung:
            self._rung -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(), name="bee:bell")
        done, _ = await self._either(waiter, timeout)
        for future in done:
            future.result()

    async def _either(
        self, waiter: asyncio.Future[None], timeout: float
    ) -> tuple[set[asyncio.Future[None]], set[asyncio.Future[None]]]:
        try:
            return await asyncio.wait({waiter}, timeout=timeout)
        except asyncio.CancelledError:
            if waiter.done() and waiter.exception() is None:
                self._hand_over()  # it was woken, and somebody must look
            raise
        finally:
            if not waiter.done():
                self._waiters.remove(waiter)
                waiter.cancel()

    async def aclose(self) -> None:
        """Stop listening."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while self._waiters:
                woken = await self._link.call(
                    self._key, b"BLPOP", self._key, _BLOCK, deadline=_BLOCK + self._deadline
                )
                if woken:
                    self._hand_over()
        except BrokerError as error:
            while self._waiters:
                self._waiters.popleft().set_exception(error)

    def _hand_over(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._rung += 1
