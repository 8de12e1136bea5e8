"""A lease that stands on the server, behind a wake-up, and is carried out when that comes.

A server that blocks a connection reads no further in what was sent over it. So who asks for a
wake-up and, in the same breath, for a lease has both answers at once: a way to the server and back
is saved. The wake-up still holds no message, and the lease is one like any other.

    BLPOP bell own      until a wake-up, the recall, or its time is over
    EVALSHA lease       then, whichever it was

To be recalled it has a list of its own, that nobody else waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from bee_core.errors import BrokerError
from bee_core.message import Lease
from bee_redis.connection import Link, is_refusal
from bee_redis.resp import pack

_SHORTEST = 0.001
"""Seconds that it stands; zero would be for ever."""
_LASTS = 10_000
"""Milliseconds after which a recall that came too late is forgotten."""


class StandingOrder:
    """One of them.

    own     the list by which it is recalled
    lease   the command that leases; `read` makes leases of its answer
    again   leases in the usual way, and says what is wrong if that cannot be
    """

    def __init__(
        self,
        link: Link,
        bell: bytes,
        own: bytes,
        lease: bytes,
        read: Callable[[bytes], Sequence[Lease]],
        again: Callable[[], Awaitable[Sequence[Lease]]],
        *,
        timeout: float,
        deadline: float,
    ) -> None:
        self._link = link
        self._own = own
        self._timeout = max(timeout, _SHORTEST)
        self._request = pack(b"BLPOP", bell, own, self._timeout) + lease
        self._read = read
        self._again = again
        self._deadline = deadline
        self._recall: asyncio.Task[None] | None = None
        self._is_over = False

    async def leases(self) -> Sequence[Lease]:
        until = asyncio.get_running_loop().time() + self._timeout + self._deadline
        try:
            reply = await self._link.call(self._own, self._request, until=until, others=1)
        except BrokerError as error:
            if not is_refusal(error):
                raise
            return await self._again()
        finally:
            self._is_over = True
            if self._recall is not None:
                self._recall.cancel()
        return self._read(reply)

    def recall(self) -> None:
        if self._recall is None and not self._is_over:
            self._recall = asyncio.create_task(self._ring(), name="bee:recall")

    async def _ring(self) -> None:
        until = asyncio.get_running_loop().time() + self._deadline
        request = pack(b"RPUSH", self._own, b"1") + pack(b"PEXPIRE", self._own, _LASTS)
        with suppress(BrokerError):  # then it is over when its time is
            await self._link.call(self._own, request, until=until, others=1)
