"""A cluster: which node holds a key, and what to do when it is another one.

The client library has all this, but it repeats calls whose answer was lost, and it sends ASKING and
the command that needs it over different connections; so only its connections are used. Nothing is
done twice here: a call goes on to another node only after one has said that it did nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from redis import exceptions as redis_errors
from redis.crc import key_slot

from bee_core.errors import (
    BrokerClosed,
    BrokerError,
    BrokerMisconfigured,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_redis.connection import PoolLink, close_all
from bee_redis.resp import Part, pack

Address: TypeAlias = tuple[str, int]

_PAUSE = 0.05
"""Seconds before asking again a node that is in the middle of handing a slot over."""
_HOPS = 5
"""Nodes that may point at each other before there is a pause."""
_SLOTS = pack(b"CLUSTER", b"SLOTS")
NOT_CLUSTERED = "this server is not part of a cluster: use redis://"


class ClusterLink:
    """Every node with a pool of its own, and a map of who holds which slot."""

    def __init__(self, seeds: Sequence[Address], connect: Callable[[Address], PoolLink]) -> None:
        self._seeds = tuple(seeds)
        self._connect = connect
        self._nodes: dict[Address, PoolLink] = {}
        self._slots: dict[int, Address] = {}
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
        slot = key_slot(key)
        where, asking, looked = await self._holder(slot, until), False, False
        for hops in itertools.count():
            try:
                node = self._node(where)
                return await node.call(
                    key, request, until=until, confirm=confirm, others=others, asking=asking
                )
            except BrokerError as error:
                cause, asking = error.__cause__, False
                if isinstance(cause, redis_errors.AskError):  # for this once, or (MOVED) for good
                    where = (cause.host or where[0], cause.port)
                    asking = not isinstance(cause, redis_errors.MovedError)
                    if not asking:
                        self._slots[slot] = where
                elif isinstance(cause, redis_errors.TryAgainError):
                    # some of the keys are here, some are there: both say so, until all are moved
                    where = await self._holder(slot, until)
                    await asyncio.sleep(_PAUSE)
                elif isinstance(error, BrokerUnavailable) and not looked and _left(until) > 0:
                    looked = True  # the node may be gone: who has its slots now?
                    await self._look(until)
                    if self._slots.get(slot, where) == where:
                        raise
                    where = self._slots[slot]
                else:
                    raise
                if hops > _HOPS:
                    await asyncio.sleep(_PAUSE)
                if _left(until) <= 0:
                    raise BrokerUnavailable(f"no node takes calls for slot {slot} now") from cause
        raise AssertionError("unreachable")

    async def everywhere(self, *command: Part, until: float) -> list[Any]:
        await self._look(until)
        nodes = [self._node(address) for address in set(self._slots.values())]
        calls = (node.call(b"", pack(*command), until=until) for node in nodes)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        found = []
        for answer in answers:
            if not isinstance(answer, BaseException):
                found.append(answer)
            elif not isinstance(answer, BrokerUnavailable | OutcomeUnknown):
                raise answer
        if not found:
            raise BrokerUnavailable("no node of the cluster answers")
        return found

    async def aclose(self) -> None:
        self._closed = True
        await close_all(*self._nodes.values())

    def _node(self, address: Address) -> PoolLink:
        if self._closed:
            raise BrokerClosed("this RedisBroker was closed")
        if address not in self._nodes:
            self._nodes[address] = self._connect(address)
        return self._nodes[address]

    async def _holder(self, slot: int, until: float) -> Address:
        if slot not in self._slots:
            await self._look(until)
        if slot not in self._slots:
            raise BrokerUnavailable(f"no node of the cluster holds slot {slot}")
        return self._slots[slot]

    async def _look(self, until: float) -> None:
        """Draw the map of the slots anew, unless somebody else has done so meanwhile."""
        seen = self._slots
        try:
            async with asyncio.timeout_at(until), self._looking:
                if self._slots is seen:
                    self._slots = await self._draw(until)
        except TimeoutError as error:
            raise BrokerUnavailable("the cluster does not answer") from error

    async def _draw(self, until: float) -> dict[int, Address]:
        """The map, from the first node that answers."""
        trouble: BrokerError = BrokerUnavailable("this cluster has no nodes")
        for address in dict.fromkeys([*self._slots.values(), *self._seeds]):
            try:
                half = until - _left(until) / 2  # another one may have to be asked
                answer = await self._node(address).call(b"", _SLOTS, until=half)
                return dict(_read_slots(answer, address[0]))
            except (BrokerUnavailable, OutcomeUnknown) as error:
                trouble = error
            except BrokerError as error:
                if "cluster support disabled" in str(error):
                    raise BrokerMisconfigured(NOT_CLUSTERED) from error
                raise
        raise BrokerUnavailable(str(trouble)) from trouble


def _left(until: float) -> float:
    return until - asyncio.get_running_loop().time()


def _read_slots(answer: Any, host: str) -> Iterator[tuple[int, Address]]:
    """Slot by slot the address of its master. A node may leave it open what its own host is."""
    for first, last, master, *_ in answer:
        name = (master[0] or b"").decode()
        address = (name if name not in ("", "?") else host, int(master[1]))
        for slot in range(first, last + 1):
            yield slot, address
