"""Waiting for notifications: one connection that listens, on a channel of this broker's own.

A hint and no more. Where notifications do not arrive (behind PgBouncer in transaction mode) that is
found out at the start, and `wait` polls instead.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
from psycopg import sql

from bee_core.errors import BrokerClosed, BrokerError
from bee_core.message import new_id
from bee_pg.faults import translate
from bee_pg.pool import Connection, cut

_PROBE = 1.0
"""Seconds in which a notification to ourselves has to arrive."""
_TRY_AGAIN = 300.0
"""Seconds after which a bell that heard nothing tries again."""


class Bell:
    """The notifications of all queues, for everybody in this event loop."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        notify: Callable[[str], Awaitable[object]],
        pass_on: Callable[[str], Awaitable[object]],
    ) -> None:
        self.channel = f"bee_{new_id().replace('-', '')}"
        self._connect = connect
        self._notify = notify
        self._pass_on = pass_on
        self._waiters: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._heard = asyncio.Event()
        self._deaf_until = 0.0
        self._passing: set[asyncio.Task[None]] = set()

    async def hears(self) -> bool:
        """Whether notifications arrive here; listens from now on if they do."""
        if self._reader is not None and not self._reader.done():
            return True
        async with self._starting:
            if self._reader is not None and not self._reader.done():
                return True
            loop = asyncio.get_running_loop()
            if loop.time() < self._deaf_until:
                return False
            if await self._listen():
                return True
            self._deaf_until = loop.time() + _TRY_AGAIN
            return False

    def expect(self, queue: str) -> asyncio.Future[None]:
        """What is done when a notification for this queue comes; hand it to `until`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[queue].append(waiter)
        return waiter

    async def until(self, queue: str, waiter: asyncio.Future[None], timeout: float) -> None:
        """Wait for it. Raises if the connection that listens has failed meanwhile."""
        try:
            await asyncio.wait({waiter}, timeout=timeout)
        except asyncio.CancelledError:
            if waiter.done() and waiter.exception() is None:
                self._hand_over(queue)  # it was woken, and somebody must look
            raise
        finally:
            self.dismiss(queue, waiter)
        if waiter.done() and not waiter.cancelled():
            waiter.result()

    def dismiss(self, queue: str, waiter: asyncio.Future[None]) -> None:
        """Wait for it no longer."""
        if not waiter.done():
            self._waiters[queue].remove(waiter)
            waiter.cancel()

    def is_awaited(self, queue: str) -> bool:
        """Whether somebody here waits for messages of this queue."""
        return bool(self._waiters[queue])

    async def aclose(self) -> None:
        """Stop listening, and send those away who wait."""
        self._fail(BrokerClosed("this PgBroker was closed"))
        tasks = [*self._passing, *([self._reader] if self._reader else [])]
        if self._connection is not None:
            cut(self._connection)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._hang_up()

    async def _listen(self) -> bool:
        """Open the connection and see whether a notification to ourselves arrives."""
        self._connection = await self._connect()
        self._heard.clear()
        try:
            listen = sql.SQL("listen {}").format(sql.Identifier(self.channel))
            await self._connection.execute(listen)
            self._reader = asyncio.create_task(self._read(self._connection), name="bee:bell")
            await self._notify(self.channel)
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE):
                    await self._heard.wait()
        except psycopg.Error as error:
            raise translate(error) from error
        finally:
            if not self._heard.is_set():
                await self._stop()
        return self._heard.is_set()

    async def _stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _read(self, connection: Connection) -> None:
        try:
            async for notification in connection.notifies():
                if notification.payload:
                    self._hand_over(notification.payload, pass_on=False)
                else:
                    self._heard.set()
            self._fail(BrokerError("the connection that listens has ended"))
        except psycopg.Error as error:
            self._fail(translate(error))
        finally:
            await connection.close()

    def _hand_over(self, queue: str, *, pass_on: bool = True) -> None:
        """Wake somebody here, or else somebody elsewhere."""
        waiters = self._waiters[queue]
        if waiters:
            waiters.popleft().set_result(None)
        elif pass_on:
            task = asyncio.create_task(self._ring_elsewhere(queue), name="bee:ring")
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _ring_elsewhere(self, queue: str) -> None:
        with suppress(BrokerError):  # what it costs is a poll
            await self._pass_on(queue)

    def _fail(self, error: Exception) -> None:
        for waiters in self._waiters.values():
            while waiters:
                waiters.popleft().set_exception(error)
