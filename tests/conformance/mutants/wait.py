"""Mutants of `wait` and of what should end it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from bee_core.disposition import Terminal
from bee_core.message import Draft, Sent
from bee_memory import MemoryBroker
from bee_memory.state import Queue


class WaitHearsNothing(MemoryBroker):
    """A wait is never over before its timeout."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        self._open(queue)
        await self._memory.clock.sleep(timeout)


class WaitHasNoTimeout(MemoryBroker):
    """A wait is not over until something is sent."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        await super().wait(queue, timeout=timeout and 1_000_000.0)


class WaitDoesNotLook(MemoryBroker):
    """A wait does not see what was ready before it began."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        q = self._open(queue)
        if q.first(self._memory.clock.now()):
            await self._memory.clock.sleep(timeout)
        else:
            await super().wait(queue, timeout=timeout)


class WaitForgetsTheClock(MemoryBroker):
    """A wait does not end when a message falls due or a lease runs out."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        q = self._open(queue)
        hidden, q.hidden = q.hidden, []
        waiting = asyncio.ensure_future(super().wait(queue, timeout=timeout))
        await asyncio.sleep(0)
        q.hidden = sorted([*hidden, *q.hidden], key=lambda entry: entry[:2])
        await waiting


class SendDoesNotRing(MemoryBroker):
    """A send wakes nobody."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        q = self._open(queue)
        bells = list(q.bells)
        q.bells.clear()
        try:
            return await super().send(queue, drafts)
        finally:
            q.bells.extend(bells)


class RepeatDoesNotRing(MemoryBroker):
    """A message that is repeated or freed wakes nobody."""

    def _dispose(self, q: Queue, *args: object) -> int:
        super()._dispose(q, *args)  # type: ignore[arg-type]
        return 0


class ResumeDoesNotRing(MemoryBroker):
    """The end of a pause wakes nobody."""

    async def resume(self, queue: str) -> None:
        self._open(queue).paused = False


class CancelDoesNotRing(MemoryBroker):
    """Who waits does not hear that a message was cancelled that he may hold."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        q = self._open(queue)
        bells, q.bells = q.bells, deque()
        missing = await super().cancel(queue, ids, to=to, running=running)
        q.bells = bells
        return missing


class CancelledWaitKeepsItsWakeUp(MemoryBroker):
    """A wake-up that met a cancelled waiter is lost."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        q = self._open(queue)
        waiting = asyncio.ensure_future(super().wait(queue, timeout=timeout))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            bells = list(q.bells)
            q.bells.clear()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            q.bells.extend(bells)
            raise


class WaitCannotBeCancelled(MemoryBroker):
    """A wait that is cancelled returns as if nothing had happened."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        with suppress(asyncio.CancelledError):
            await super().wait(queue, timeout=timeout)


class WaitTakesAMessage(MemoryBroker):
    """A wait takes the message itself, and a cancelled one loses it."""

    async def wait(self, queue: str, *, timeout: float) -> None:
        q = self._open(queue)
        try:
            await super().wait(queue, timeout=timeout)
        except asyncio.CancelledError:
            message = q.first(self._memory.clock.now())
            if message is not None:
                del q.live[message.id]
            raise
