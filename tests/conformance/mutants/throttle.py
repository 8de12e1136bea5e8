"""Mutants of rates: what is counted, for whom, and over which time."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import msgspec

from bee_core.message import Lease, Rate, Receipt, Settlement, Throttle
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue
from bee_memory.turns import Turns

from .altered import Altered

replace = msgspec.structs.replace


class RateMeansNothing(Altered):
    """The rate of a queue has no effect."""

    class turns_kind(Turns):
        def room(self, throttle: Throttle, now: float) -> float:
            return super().room(replace(throttle, rate=None), now)


class KeyRateMeansNothing(Altered):
    """The rate of a key has no effect."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return super().admits(key, id, replace(throttle, key_rate=None), now)


class KeyRateReplacesPerKey(Altered):
    """A key that has a rate may have any number of holders."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            if throttle.key_rate is not None:
                throttle = replace(throttle, per_key=None)
            return super().admits(key, id, throttle, now)


class OneDeliveryTooMany(Altered):
    """One delivery more than the rate allows."""

    class turns_kind(Turns):
        def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
            more = None if rate is None else Rate(rate.times + 1, rate.per)
            return super()._room(key, more, now)


class RateIsForEachCall(MemoryBroker):
    """The rate of a queue counts anew with each call."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        self._open(queue).turns.delivered.pop(None, None)
        return await super().lease(queue, **how)


class RateIsCheckedOncePerCall(Altered):
    """A call that begins within the rate of a key takes all it can get."""

    class turns_kind(Turns):
        def take(self, message: Message, throttle: Throttle, now: float) -> None:
            before = list(self.delivered[message.key])
            super().take(message, throttle, now)
            if before and before[-1] == now:
                self.delivered[message.key] = deque(before)


class WindowsStandStill(Altered):
    """Time is cut into stretches that begin with a delivery, instead of any stretch."""

    class turns_kind(Turns):
        def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
            times = self.delivered[key]
            if rate is not None and times and times[0] + rate.seconds <= now:
                times.clear()
            return super()._room(key, rate, now)


class OneAtATimeByTheRate(Altered):
    """Deliveries are spread evenly: after each of them there is a pause."""

    class turns_kind(Turns):
        def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
            even = None if rate is None else Rate(1, rate.seconds / rate.times)
            return super()._room(key, even, now)


class WindowNeverEnds(Altered):
    """What was delivered once counts for ever."""

    class turns_kind(Turns):
        def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
            return super()._room(key, None if rate is None else Rate(rate.times, 1e8), now)


class TakeOverIsNoDelivery(Altered):
    """A lease that is taken over is not counted."""

    class turns_kind(Turns):
        def take(self, message: Message, throttle: Throttle, now: float) -> None:
            if message.counters.stalls:
                throttle = replace(throttle, rate=None, key_rate=None)
            super().take(message, throttle, now)


class TakeOverIsNotHeldBack(Altered):
    """A lease that ran out is taken over, whatever the rate of its key."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            return id in self.holders[key] or super().admits(key, id, throttle, now)


class WhatEndsIsNotCounted(MemoryBroker):
    """The end of a message gives its delivery back."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q = self._open(queue)
        for settlement in settlements:
            message = q.live.get(settlement.receipt.id)
            for key in {None, message.key if message is not None else None}:
                if q.turns.delivered[key]:
                    q.turns.delivered[key].pop()
        return set(await super().settle(queue, settlements))


class EmptyQueueForgetsItsRate(MemoryBroker):
    """When the last message of a queue has ended, its deliveries are forgotten."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost = set(await super().settle(queue, settlements))
        q = self._open(queue)
        if not q.live:
            q.turns.delivered.clear()
        return lost


class PassedOverCountsAsDelivered(Altered):
    """One that is passed over for its key counts as delivered."""

    class turns_kind(Turns):
        def park(self, message: Message) -> None:
            super().park(message)
            self.delivered[None].extend(list(self.delivered[None])[-1:])


class KeysShareTheirRate(Altered):
    """The rate of a key counts what was delivered of any key."""

    class turns_kind(Turns):
        def _room(self, key: str | None, rate: Rate | None, now: float) -> tuple[float, float]:
            if key is None or rate is None:
                return super()._room(key, rate, now)
            mine = self.delivered[key]
            every = [t for one, times in self.delivered.items() if one is not None for t in times]
            self.delivered[key] = deque(sorted(every))
            try:
                return super()._room(key, rate, now)
            finally:
                self.delivered[key] = mine


class QueuesShareTheirRate(MemoryBroker):
    """What was delivered of one queue counts in all of them."""

    def _open(self, queue: str) -> Queue:
        q = super()._open(queue)
        q.turns.delivered = next(iter(self._memory.queues.values())).turns.delivered
        return q


class EachBrokerCountsForItself(MemoryBroker):
    """A clone does not know of the deliveries of the others."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        mine: defaultdict[str | None, deque[float]]
        mine = self.__dict__.setdefault("_mine", defaultdict(deque))
        q = self._open(queue)
        q.turns.delivered = mine
        return await super().lease(queue, **how)


class RateIsCheckedTooEarly(MemoryBroker):
    """What was delivered is looked up before the lease, not in it."""

    async def lease(self, queue: str, **how: Any) -> Sequence[Lease]:
        q = self._open(queue)
        seen = {key: deque(times) for key, times in q.turns.delivered.items()}
        await asyncio.sleep(0)
        q.turns.delivered = defaultdict(deque, seen)
        return await super().lease(queue, **how)


class RateWakesNobody(Altered):
    """When the rate of the queue allows the next, who waits is not told."""

    class turns_kind(Turns):
        def room(self, throttle: Throttle, now: float) -> float:
            room = super().room(throttle, now)
            if room < 1:
                self.quiet_until = math.inf
            return room


class KeyRateForgets(Altered):
    """Those that are held back by the rate of their key are not looked at again."""

    class turns_kind(Turns):
        def admits(self, key: str, id: str, throttle: Throttle, now: float) -> bool:
            admitted = super().admits(key, id, throttle, now)
            self.wakes.clear()
            return admitted


class DropLeavesTheRate(MemoryBroker):
    """What was delivered of a dropped queue still counts."""

    async def drop(self, queue: str) -> None:
        delivered = self._open(queue).turns.delivered
        await super().drop(queue)
        self._open(queue).turns.delivered = delivered
