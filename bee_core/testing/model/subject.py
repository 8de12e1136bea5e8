"""The store under test, its clients, and how time passes in it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from bee_core.broker import Described, Store
from bee_core.ids import new_id
from bee_core.message import Draft
from bee_core.testing.faults import FaultyBroker

T = TypeVar("T")

Advance = Callable[[float], Awaitable[None]]
"""Moves the store's clock forward by so many seconds, at once."""
Disturb = Callable[[], Awaitable[None]]
"""Does something to the store that must not matter, such as to forget its scripts."""

CLIENTS = 3
MOMENT = 0.001
"""The shortest duration there is. It is over when the next step begins, on any clock."""


class Subject:
    """A store, several clients of it, and its clock."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        *,
        advance: Advance | None = None,
        disturb: Disturb | None = None,
    ) -> None:
        self.store = store
        self.queue = f"model-{new_id()[-12:]}"
        self.clients = [FaultyBroker(store.clone()) for _ in range(CLIENTS)]
        self.tally: Counter[str] = Counter()
        self._advance, self._disturb = advance, disturb
        self._loop = loop
        self._ahead = 0.0

    def now(self) -> float:
        """What the store's clock shows, give or take a round trip."""
        return time.monotonic() + self._ahead

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in the event loop that the store's connections belong to."""
        return self._loop.run_until_complete(work)

    async def open(self) -> str:
        """Find out what time it is there, and what stands there."""
        await self.store.__aenter__()
        await self.store.send(self.queue, [Draft("time", b"")])
        shown = await self.store.get(self.queue, "time")
        assert shown is not None, "a message that was just sent is not there"
        self._ahead = shown.sent_at - time.monotonic()
        kind = type(self.store)
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if isinstance(self.store, Described):
            name += f" on {(await self.store.describe()).name}"
        return name

    async def begin(self) -> None:
        """Leave the queue of the last run for another that nobody has used."""
        await self.store.drop(self.queue)
        self.queue = f"model-{new_id()[-12:]}"

    async def advance(self, seconds: float) -> None:
        """Let time pass: move the clock, or sleep."""
        if self._advance is None:
            await asyncio.sleep(2 * seconds)
        else:
            await self._advance(seconds)
            self._ahead += seconds

    async def move(self, seconds: float) -> bool:
        """Move the clock, if that can be done. Whether it can."""
        if self._advance is not None:
            await self.advance(seconds)
        return self._advance is not None

    async def disturb(self) -> bool:
        """Do what must not matter, if there is such a thing. Whether there is."""
        if self._disturb is not None:
            await self._disturb()
        return self._disturb is not None

    async def crash(self, client: int) -> None:
        """A client is gone, whatever it holds; another takes its place."""
        await self.clients[client].aclose()
        self.clients[client] = FaultyBroker(self.store.clone())

    async def close(self) -> None:
        """Leave nothing behind."""
        for client in self.clients:
            await client.aclose()
        await self.store.drop(self.queue)
        await self.store.aclose()
