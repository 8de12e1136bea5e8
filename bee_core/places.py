"""So many at a time: who comes when all places are taken waits for his turn."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class Places:
    """A number of places, in one event loop. Who waits longest has the next one.

    As asyncio's semaphore; but a place that is free is had without a coroutine.
    """

    def __init__(self, number: int) -> None:
        self._free = number  # none, while anybody waits
        self._line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place, if one is free."""
        if self._free < 1:
            return False
        self._free -= 1
        return True

    async def take_turn(self, until: float) -> None:
        """Wait for a place and take it; TimeoutError at `until`, of the loop's clock."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            async with asyncio.timeout_at(until):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():  # it has come a moment too late
                self.leave()
            with suppress(ValueError):  # it was not in the line any more
                self._line.remove(turn)
            raise

    def leave(self) -> None:
        """Give a place back: to somebody who waits, if anybody does."""
        while self._line:
            if not (turn := self._line.popleft()).done():
                turn.set_result(None)
                return
        self._free += 1
