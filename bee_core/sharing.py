"""What a hive says of the capacity that its queues share, and whether that can be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from bee_core.auto import Auto, Tuner, check_size, first_and_most
from bee_core.capacity import Capacity, Place
from bee_core.checks import check_whole
from bee_core.clock import Clock
from bee_core.errors import InvalidOption
from bee_core.events import ConcurrencyChanged, Observer, announce, log
from bee_core.meter import Reading
from bee_core.parts import Parts

ALL = "*"
"""Stands for every queue of a hive in the events about its capacity."""


class Sharing:
    """The capacity of a hive as it was asked for; None if there is none to share."""

    def __init__(self, size: int | Auto | None) -> None:
        self._size = None if size is None else check_size(size, "capacity")
        first, self._most = (0, 0) if self._size is None else first_and_most(self._size)
        self._least = 1
        self._capacity = None if self._size is None else Capacity(first)

    def place(self, precedence: int, share: int, size: int, *, of: int | Auto) -> Place | None:
        """What a queue of that concurrency is to the others, or InvalidOption."""
        if type(precedence) is not int:
            raise InvalidOption(f"precedence must be a whole number, not {precedence!r}")
        check_whole(share, "share", least=0)
        check_whole(size, "size", least=1)
        if self._capacity is None:
            if (precedence, share, size) != (0, 0, 1):
                raise InvalidOption(
                    "precedence, share and size are about the capacity that the queues of a hive "
                    "share, and this hive has none: give it one, with Hive(capacity=...)"
                )
            return None
        _, concurrency = first_and_most(of)
        if share > concurrency:
            raise InvalidOption(
                f"share is {share}, but this queue runs {concurrency} jobs at once at most: "
                "raise its concurrency"
            )
        if size > self._most:
            raise InvalidOption(f"size is {size}, but the capacity of the hive is {self._most}")
        return Place(self._capacity, precedence, share, size)

    def check(self, places: Mapping[str, Place | None]) -> None:
        """Raise InvalidOption if these queues cannot all have their shares and start jobs."""
        found = {name: place for name, place in places.items() if place is not None}
        kept = sum(place.share * place.size for place in found.values())
        if kept > self._most:
            parts = ", ".join(f"{n}: {p.share} x {p.size}" for n, p in found.items() if p.share)
            raise InvalidOption(
                f"the shares of the queues add up to {kept} ({parts}), but the capacity of the "
                f"hive is {self._most}: raise it, or lower the shares"
            )
        self._least = max(1, kept)
        for name, place in found.items():
            others = kept - place.share * place.size
            if others + place.size > self._most:
                raise InvalidOption(
                    f"a job of queue {name!r} takes {place.size} of the capacity of the hive, but "
                    f"the shares of the others leave {self._most - others}: it would never start"
                )
            self._least = max(self._least, others + place.size)
        if self._capacity is not None:
            self._capacity.size = max(self._capacity.size, self._least)

    @asynccontextmanager
    async def tuned(self, clock: Clock, observers: Sequence[Observer]) -> AsyncIterator[None]:
        """Inside of it the capacity follows the load, if it is to; never below what shares need."""
        parts = Parts(_log_failure)
        capacity, auto = self._capacity, self._size
        if capacity is not None and isinstance(auto, Auto):

            def on_changed(size: int, reading: Reading) -> None:
                announce(observers, ConcurrencyChanged(ALL, size, reading.cpu, reading.lag))

            least = max(auto.min, self._least)
            bounded = msgspec.structs.replace(auto, min=least, start=None)
            Tuner(
                bounded,
                clock,
                size=lambda: capacity.size,
                load=capacity.load,
                resize=capacity.resize,
                on_changed=on_changed,
            ).start(parts)
        try:
            yield
        finally:
            await parts.stop()


def _log_failure(name: str, error: BaseException) -> None:
    log.error("%s failed", name, exc_info=error)
