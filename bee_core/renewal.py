"""Renewing leases in one call that ends in time; in several, if somebody has locked one of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from bee_core.attempt import Attempt
from bee_core.broker import Broker
from bee_core.clock import Clock
from bee_core.errors import BrokerLocked, BrokerUnavailable
from bee_core.message import Receipt


class Said(NamedTuple):
    """What the broker does not know yet of some of those that are held, by id."""

    progress: Mapping[str, str]
    remarks: Mapping[str, str]


@dataclass(frozen=True)
class Renewal:
    """How one worker's leases are renewed. `patience` is how long a call may take at least."""

    queue: str
    lease: float
    patience: float
    clock: Clock

    async def renew(
        self,
        broker: Broker,
        old: Sequence[Attempt],
        news: Said,
        until: float,
        on_renewed: Callable[[Sequence[Attempt], AbstractSet[Receipt]], None],
    ) -> None:
        """Renew them, and tell which were, and which of those are lost. Raises what went wrong.

        What somebody has locked is found by halving: the others must not suffer for it.
        """
        parts: deque[Sequence[Attempt]] = deque([old])
        locked: BrokerLocked | None = None
        while parts:
            some = parts.popleft()
            try:
                lost = await self._extend(broker, some, news, until)
            except BrokerLocked as error:
                middle = len(some) // 2
                if middle:
                    parts += some[:middle], some[middle:]
                else:
                    locked = error
            else:
                on_renewed(some, lost)
        if locked is not None:
            raise locked

    async def _extend(
        self, broker: Broker, old: Sequence[Attempt], news: Said, until: float
    ) -> AbstractSet[Receipt]:
        """Do not wait for longer than these leases, or newer ones, may last."""
        left = min(until - self.clock.now(), self.lease / 3)
        receipts = [attempt.lease.receipt for attempt in old]

        async def extend() -> AbstractSet[Receipt]:
            return await broker.extend(
                self.queue,
                receipts,
                duration=self.lease,
                progress=news.progress,
                remarks=news.remarks,
            )

        extending = asyncio.create_task(extend(), name="bee:extend")
        try:
            await self._limited(extending, max(left, self.patience))
            return extending.result()
        finally:
            extending.cancel()

    async def _limited(self, work: asyncio.Task[AbstractSet[Receipt]], seconds: float) -> None:
        limit = asyncio.create_task(self.clock.sleep(seconds), name="bee:limit")
        both: set[asyncio.Task[Any]] = {work, limit}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
        if not work.done():
            raise BrokerUnavailable("extend did not answer while the lease lasted")
