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
from itertools import count
from secrets import token_hex

from bee_core.errors import BrokerError, OutcomeUnknown
from bee_core.message import Lease
from bee_redis.bell import SLACK
from bee_redis.connection import Link, is_refusal
from bee_redis.resp import pack

_MOST = 64
"""Of one broker object: each has a connection to itself."""
_SHORTEST = 0.001
"""Seconds that it stands; zero would be for ever."""
_PATIENCE = 0.5
"""Seconds after a recall in which it has to be carried out."""
_LASTS = 10_000
"""Milliseconds after which a recall that came too late is forgotten."""


class Orders:
    """Those that a broker has standing."""

    def __init__(self) -> None:
        self.standing = 0
        self.names = map(f"{token_hex(6)}-%d".__mod__, count(1))
        """For the lists by which they are recalled."""

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there may be."""
        return self.standing >= _MOST


class StandingOrder:
    """One of them.

    link    for what is not to wait
    own     the list by which it is recalled
    lease   the command that leases; `read` makes leases of its answer
    again   leases in the usual way, and says what is wrong if that cannot be
    """

    def __init__(
        self,
        orders: Orders,
        link: Link,
        waiting: Link,
        bell: bytes,
        own: bytes,
        lease: bytes,
        read: Callable[[bytes], Sequence[Lease]],
        again: Callable[[], Awaitable[Sequence[Lease]]],
        *,
        timeout: float,
        deadline: float,
    ) -> None:
        self._orders = orders
        self._link = link
        self._waiting = waiting
        self._own = own
        self._stands = max(timeout, _SHORTEST)
        self._request = pack(b"BLPOP", bell, own, self._stands) + lease
        self._read = read
        self._again = again
        self._deadline = deadline
        self._limit: asyncio.Timeout | None = None
        self._recall: asyncio.Task[None] | None = None
        self._is_over = False

    async def leases(self) -> Sequence[Lease]:
        until = asyncio.get_running_loop().time() + self._stands + SLACK + self._deadline
        self._orders.standing += 1
        try:
            async with asyncio.timeout(None) as self._limit:
                reply = await self._waiting.call(self._own, self._request, until=until, others=1)
        except BrokerError as error:
            if not is_refusal(error):
                raise
            return await self._again()
        except TimeoutError as error:
            raise OutcomeUnknown("a lease was recalled, and there is no answer") from error
        finally:
            self._is_over = True
            self._orders.standing -= 1
            if self._recall is not None:
                self._recall.cancel()
        return self._read(reply)

    def recall(self) -> None:
        if self._recall is None and not self._is_over:
            self._recall = asyncio.create_task(self._ring(), name="bee:recall")

    async def _ring(self) -> None:
        """Have it end; and if the server cannot do that, do not wait for it."""
        patience = asyncio.get_running_loop().time() + _PATIENCE
        request = pack(b"RPUSH", self._own, b"1") + pack(b"PEXPIRE", self._own, _LASTS)
        try:
            await self._link.call(self._own, request, until=patience, others=1)
        except BrokerError:
            patience = 0.0
        if self._limit is not None and not self._is_over:
            self._limit.reschedule(patience)
