"""A broker that writes down what it is asked and what it answers. `history` judges that."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import count
from pathlib import Path
from typing import Any, assert_never

import msgspec

from bee_core.broker import Store
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Draft, Lease, Receipt, Sent, Settlement
from bee_core.testing.faults import FaultyBroker
from bee_core.testing.history import Event, Item, Record, Verb, Way


class Recorder:
    """The file of one process. A line is there or it is not, also if the process is killed next.

    `clock` is one that all processes share: that of the machine, unless told otherwise.
    """

    def __init__(
        self, directory: Path, who: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        path = directory / f"{who}.history"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._who, self._clock = who, clock
        self._calls = count(1)

    def ask(self, verb: Verb, items: Sequence[Item] = (), duration: float = 0.0) -> int:
        """Write down that a call begins. Return its number."""
        call = next(self._calls)
        self._write(call, "asked", verb, items, duration)
        return call

    def answer(self, call: int, verb: Verb, items: Sequence[Item]) -> None:
        """Write down what a call has done."""
        self._write(call, "answered", verb, items, 0.0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _write(
        self, call: int, event: Event, verb: Verb, items: Sequence[Item], duration: float
    ) -> None:
        record = Record(self._who, call, self._clock(), event, verb, items, duration)
        os.write(self._file, msgspec.json.encode(record) + b"\n")


class RecordedBroker(FaultyBroker):
    """Passes every verb on, and writes down the four that a history is made of."""

    def __init__(self, inner: Store, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder

    def clone(self) -> RecordedBroker:
        return RecordedBroker(self.inner.clone(), self._recorder)

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        items = [Item(draft.id) for draft in drafts]
        call = self._recorder.ask("send", items)
        sent = await super().send(queue, drafts)
        self._recorder.answer(call, "send", items)
        return sent

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        call = self._recorder.ask("lease", duration=options["duration"])
        leases = await super().lease(queue, **options)
        self._recorder.answer(call, "lease", [_leased(lease) for lease in leases])
        return leases

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        items = [Item(receipt.id, receipt.token) for receipt in receipts]
        call = self._recorder.ask("extend", items, options["duration"])
        lost = await super().extend(queue, receipts, **options)
        self._recorder.answer(call, "extend", _without(items, lost))
        return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        items = [_settled(settlement) for settlement in settlements]
        call = self._recorder.ask("settle", items)
        lost = await super().settle(queue, settlements)
        self._recorder.answer(call, "settle", _without(items, lost))
        return lost


def _leased(lease: Lease) -> Item:
    told = lease.counters
    return Item(
        lease.receipt.id,
        lease.receipt.token,
        errors=told.errors,
        deliveries=told.deliveries,
        stalls=told.stalls,
    )


def _settled(settlement: Settlement) -> Item:
    receipt = settlement.receipt
    way = _way(settlement.disposition)
    return Item(receipt.id, receipt.token, way, errors=settlement.counters.errors)


def _way(disposition: Disposition) -> Way:
    match disposition:
        case Delete():
            return "delete"
        case Archive():
            return "archive"
        case Reschedule():
            return "repeat"
        case _:
            assert_never(disposition)


def _without(items: Sequence[Item], lost: AbstractSet[Receipt]) -> list[Item]:
    return [item for item in items if Receipt(item.id, item.token) not in lost]
