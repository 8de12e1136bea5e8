"""Waiting for notifications: one connection that listens, on a channel of this broker's own.

A hint and no more. Where notifications do not arrive (behind PgBouncer in transaction mode) that is
found out at the start, and `wait` polls instead.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import psycopg

from bee_core.errors import BrokerClosed, BrokerError, BrokerUnavailable
from bee_core.ids import new_id
from bee_pg.faults import translate
from bee_pg.pool import Connection, cut

_PROBE = 1.0
"""Seconds in which a notification to ourselves has to arrive."""
_TRY_AGAIN = 300.0
"""Seconds after which a bell that heard nothing tries again."""


class Bell:
    """The notifications of all queues, for everybody in this event loop.

    `listen` opens the connection; `probe` says that it surely leads to the server itself, or else
    sends a notification to ourselves; `rise` takes us off the list of the idle and wakes somebody
    else.
    """

    def __init__(
        self,
        listen: Callable[[str], Awaitable[Connection]],
        probe: Callable[[str], Awaitable[bool]],
        rise: Callable[[str, str], Awaitable[object]],
    ) -> None:
        self.channel = f"bee_{new_id().replace('-', '')}"
        self.resting: dict[str, float] = {}
        """Until when we are surely listed as idle, by queue; 0 if we may or may not be."""
        self._listen = listen
        self._probe = probe
        self._rise = rise
        self._waiters: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._woken: dict[str, asyncio.Future[None]] = {}
        """Who was woken last and is yet to look, by queue."""
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._heard = asyncio.Event()
        self._deaf_until = 0.0
        self._to_pass_on: set[str] = set()
        """Queues of which somebody else is to be told, once for all we have heard so far."""
        self._rising: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    async def hears(self) -> bool:
        """Whether notifications arrive here; listens from now on if they do."""
        if self._is_reading():
            return True
        async with self._starting:
            if self._is_reading():
                return True
            loop = asyncio.get_running_loop()
            if loop.time() < self._deaf_until:
                return False
            if await self._start():
                return True
            self._deaf_until = loop.time() + _TRY_AGAIN
            return False

    def expect(self, queue: str) -> asyncio.Future[None]:
        """Is done when a notification for this queue comes. Hand it to `wait` or to `dismiss`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[queue].append(waiter)
        return waiter

    async def wait(self, queue: str, waiter: asyncio.Future[None], timeout: float) -> bool:
        """Wait for it; whether it came. Raises if the connection that listens has failed."""
        try:
            await asyncio.wait({waiter}, timeout=timeout)
        except asyncio.CancelledError:
            self.dismiss(queue, waiter)
            raise
        if waiter.done():
            self._looks(queue, waiter)
            waiter.result()
            return True
        self.dismiss(queue, waiter)
        return False

    def dismiss(self, queue: str, waiter: asyncio.Future[None]) -> None:
        """Wait for it no longer. If it was woken already, somebody else must look."""
        if not waiter.done():
            self._waiters[queue].remove(waiter)
            waiter.cancel()
        elif waiter.exception() is None:
            self._looks(queue, waiter)
            self._hand_over(queue)

    def is_awaited(self, queue: str) -> bool:
        """Whether somebody here waits for messages of this queue."""
        return bool(self._waiters[queue])

    def wake(self, queue: str) -> None:
        """Somebody here who waits for messages of this queue is to look."""
        self._hand_over(queue)

    async def risen(self) -> None:
        """Return when nobody here is about to be taken off the list of the idle."""
        while self._rising:
            await asyncio.wait(self._rising.values())

    async def aclose(self) -> None:
        """Stop listening, and send those away who wait."""
        self._closed = True
        self._fail(BrokerClosed("this PgBroker was closed"))
        self._heard.set()
        tasks = [*self._rising.values(), *([self._reader] if self._reader else [])]
        if self._connection is not None:
            cut(self._connection)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.hang_up()

    async def hang_up(self) -> None:
        """Let go of the connection, and of nothing else: its event loop may be no more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _is_reading(self) -> bool:
        return self._reader is not None and not self._reader.done()

    async def _start(self) -> bool:
        """Open the connection and see whether notifications arrive."""
        connection = self._connection = await self._listen(self.channel)
        self.resting.clear()  # the server may have forgotten
        self._heard.clear()
        try:
            self._check_open()
            self._reader = asyncio.create_task(self._read(connection), name="bee:bell")
            if await self._probe(self.channel):
                self._heard.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE):
                    await self._heard.wait()
            self._check_open()
            if self._reader.done():
                raise BrokerUnavailable("the connection that listens has ended")
        except BaseException:
            await self._stop()
            raise
        if not self._heard.is_set():
            await self._stop()
        return self._heard.is_set()

    async def _stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
        await self.hang_up()

    async def _read(self, connection: Connection) -> None:
        try:
            async for notification in connection.notifies():
                if notification.payload:
                    self._hand_over(notification.payload)
                else:
                    self._heard.set()
            self._fail(BrokerError("the connection that listens has ended"))
        except Exception as error:  # whatever it is, those who wait are to hear of it
            self._fail(translate(error) if isinstance(error, psycopg.Error) else error)
        finally:
            await connection.close()

    def _hand_over(self, queue: str) -> None:
        """Wake somebody here; or else somebody elsewhere, who is not as busy as we are.

        One look is enough for all that was heard before it: who finds more than he can take wakes
        the next. Else those who were rung many times at once would ring each other for a long time.
        """
        waiters = self._waiters[queue]
        if waiters:
            self._woken[queue] = waiter = waiters.popleft()
            waiter.set_result(None)
        elif queue not in self._woken and not self._closed:
            self.resting[queue] = 0.0  # not forgotten: who closes before it is done takes leave
            self._to_pass_on.add(queue)
            if queue not in self._rising or self._rising[queue].done():
                task = asyncio.create_task(self._wake_another(queue), name="bee:ring")
                self._rising[queue] = task
                task.add_done_callback(partial(self._risen, queue))

    def _looks(self, queue: str, waiter: asyncio.Future[None]) -> None:
        """What is heard from now on may come too late for this one."""
        if self._woken.get(queue) is waiter:
            del self._woken[queue]

    async def _wake_another(self, queue: str) -> None:
        """Until nothing was heard while we did so."""
        while queue in self._to_pass_on:
            self._to_pass_on.discard(queue)
            with suppress(BrokerError):  # what it costs is a poll
                await self._rise(queue, self.channel)

    def _risen(self, queue: str, task: asyncio.Task[None]) -> None:
        if self._rising.get(queue) is task:
            del self._rising[queue]

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerClosed("this PgBroker was closed")

    def _fail(self, error: Exception) -> None:
        for waiters in self._waiters.values():
            while waiters:
                waiters.popleft().set_exception(error)
