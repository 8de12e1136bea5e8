"""Behind Sentinel: the master is whoever the sentinels say; they are asked again after trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bee_core.errors import BrokerClosed, BrokerError, BrokerUnavailable, OutcomeUnknown
from bee_redis.cluster import Address
from bee_redis.connection import PoolLink, close_all
from bee_redis.resp import Part, pack

_PATIENCE = 0.5
"""Seconds that one sentinel has to answer; the next one is asked then."""


class SentinelLink:
    """One master at a time, each with a pool of its own."""

    def __init__(
        self, sentinels: Sequence[PoolLink], service: str, connect: Callable[[Address], PoolLink]
    ) -> None:
        self._sentinels = list(sentinels)
        self._service = service
        self._connect = connect
        self._address: Address | None = None
        self._master: PoolLink | None = None
        self._doubted = True
        self._looking = asyncio.Lock()
        self._closed = False

    async def call(
        self,
        key: bytes,
        request: bytes,
        *,
        until: float,
        confirm: tuple[Part, ...] = (),
        others: int = 0,
    ) -> Any:
        master = self._master
        if self._doubted or master is None:
            master = await self._look(until)
        try:
            return await master.call(key, request, until=until, confirm=confirm, others=others)
        except (BrokerUnavailable, OutcomeUnknown):
            self._doubted = True  # nothing is repeated here; but the next call asks first
            raise
        except BrokerClosed as error:
            if self._closed:
                raise
            raise BrokerUnavailable("there is another master now") from error

    async def everywhere(self, *command: Part, until: float) -> list[Any]:
        return [await self.call(b"", pack(*command), until=until)]

    async def aclose(self) -> None:
        self._closed = True
        await close_all(*self._sentinels, self._master)

    async def _look(self, until: float) -> PoolLink:
        try:
            async with asyncio.timeout_at(until), self._looking:
                if self._doubted or self._master is None:
                    await self._turn_to(await self._ask())
                    self._doubted = False
        except TimeoutError as error:
            raise BrokerUnavailable("no sentinel answers") from error
        assert self._master is not None
        return self._master

    async def _turn_to(self, address: Address) -> None:
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")
        if address == self._address and self._master is not None:
            return
        former, self._master, self._address = self._master, self._connect(address), address
        if former is not None:
            await former.aclose()  # whoever still waits for it there hears of it now

    async def _ask(self) -> Address:
        trouble: BrokerError | None = None
        question = pack(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._service)
        for sentinel in list(self._sentinels):
            until = asyncio.get_running_loop().time() + _PATIENCE
            try:
                answer = await sentinel.call(b"", question, until=until)
            except (BrokerUnavailable, OutcomeUnknown) as error:
                trouble = error
                continue
            if answer is not None:
                self._sentinels.remove(sentinel)
                self._sentinels.insert(0, sentinel)  # it knows: it is asked first the next time
                return answer[0].decode(), int(answer[1])
        if trouble is not None:
            raise BrokerUnavailable(f"no sentinel answers: {trouble}") from trouble
        raise BrokerUnavailable(f"no sentinel knows a master {self._service!r}")
