"""Telling the broker how attempts ended, in batches that form by themselves.

One `settle` is under way at a time; what ends meanwhile goes out together in the next. So a
busy worker sends few, large batches and an idle one does not wait. Trouble is retried with the
same receipts until it passes: the token makes that safe. What somebody has locked is found by
halving, and tried by itself: the others must not wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from bee_core.attempt import Attempt
from bee_core.batches import BATCH, BATCH_BYTES
from bee_core.broker import Broker
from bee_core.disposition import Reschedule
from bee_core.errors import (
    BrokerError,
    BrokerFull,
    BrokerLocked,
    BrokerUnavailable,
    OutcomeUnknown,
)
from bee_core.message import Counters, Receipt, Settlement
from bee_core.outcome import Outcome
from bee_core.trouble import Trouble, own_cancellation

_BESIDE_BODY = 1024
"""Bytes that a draft counts for beside those of its body."""
_PASSING = (BrokerUnavailable, OutcomeUnknown, BrokerFull, OSError, asyncio.CancelledError)


class Ended(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An attempt, how it ended, and what the broker is to be told."""

    attempt: Attempt
    outcome: Outcome
    settlement: Settlement


class Settler:
    """Settles the attempts of one worker."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        trouble: Trouble,
        *,
        on_settled: Callable[[Sequence[Ended]], None],
        on_lost: Callable[[Ended, bool], None],
        on_refused: Callable[[Ended, Exception], None],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._trouble = trouble
        self._on_settled = on_settled
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._waiting: list[Ended] = []
        self._locked: deque[Sequence[Ended]] = deque()
        """Batches in which somebody has locked something, smaller and smaller."""
        self._under_way: list[Ended] = []
        self._unsure: set[int] = set()
        self._dropped = False
        self.failing = False
        """Whether the broker did not take the last batch, which is tried again."""
        self._more = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()

    def put(self, ended: Ended) -> None:
        """Settle this with the next batch."""
        if not self._waiting:  # else both are as they should be
            self._more.set()
            self._done.clear()
        self._waiting.append(ended)

    async def run(self) -> None:
        """Settle what is put, for ever."""
        while True:
            if not self._waiting and not self._locked:
                self._done.set()
                self._more.clear()
                await self._more.wait()
            if self._waiting:
                end = _batch_end(self._waiting)
                batch, self._waiting = self._waiting[:end], self._waiting[end:]
                await self._see_to(batch)
            if self._locked:
                await self._see_to(self._locked.popleft())

    async def flush(self) -> None:
        """Return when everything put so far is settled."""
        await self._done.wait()

    def drop(self) -> None:
        """Tell the broker nothing any more."""
        self._dropped = True

    async def _see_to(self, batch: Sequence[Ended]) -> None:
        """Settle these; what has no answer if that is cut short is for whoever takes over."""
        self._under_way = list(batch)
        try:
            await self._settle(batch)
        except BaseException:
            self._unsure |= {ended.settlement.receipt.token for ended in self._under_way}
            self._waiting[:0] = self._under_way
            raise
        finally:
            self._under_way = []

    async def _settle(self, batch: Sequence[Ended]) -> None:
        """Until the broker has answered for every one of them, or found it locked."""
        certain = True
        while True:
            try:
                lost = await self._send([ended.settlement for ended in batch])
            except BaseException as error:
                if own_cancellation(error):
                    raise
                if isinstance(error, BrokerLocked):
                    if not certain:
                        self._unsure |= {ended.settlement.receipt.token for ended in batch}
                    await self._halve(batch, error)
                    return
                if isinstance(error, _PASSING):
                    certain = certain and not isinstance(error, OutcomeUnknown)
                    self.failing = True
                    await self._trouble.back_off("settle", error)
                    continue
                self.failing = False
                if len(batch) == 1:
                    await self._give_back(batch[0], error)
                else:  # one of them is the culprit: the others must not suffer for it
                    self._unsure |= {ended.settlement.receipt.token for ended in batch}
                    for ended in batch:
                        await self._settle([ended])
                return
            self.failing = False
            if not self._locked:
                self._trouble.over("settle")
            unsure = self._answered(batch)
            if lost:  # as a rule, none is
                for ended in batch:
                    if ended.settlement.receipt in lost:
                        sure = certain and ended.settlement.receipt.token not in unsure
                        self._on_lost(ended, sure)
                batch = [ended for ended in batch if ended.settlement.receipt not in lost]
            self._on_settled(batch)
            return

    async def _halve(self, batch: Sequence[Ended], error: BrokerLocked) -> None:
        """Somebody has locked one of them: so the others need not wait for it."""
        middle = len(batch) // 2
        self._locked += [half for half in (batch[:middle], batch[middle:]) if half]
        self._under_way = [one for one in self._under_way if one not in batch]
        if not middle:
            await self._trouble.back_off("settle", error)

    def _answered(self, batch: Sequence[Ended]) -> AbstractSet[int]:
        """Of these nothing is under way any more. Return which had been asked about before."""
        whole = len(batch) == len(self._under_way)  # as a rule; else they went one by one
        self._under_way = [] if whole else [one for one in self._under_way if one not in batch]
        if not self._unsure:
            return self._unsure
        unsure = self._unsure & {ended.settlement.receipt.token for ended in batch}
        self._unsure -= unsure
        return unsure

    async def _give_back(self, ended: Ended, error: BaseException) -> None:
        """The broker refuses this settlement: return the message plainly, or let its lease end."""
        plain = Settlement(
            ended.settlement.receipt, Reschedule(60.0), counters=Counters(releases=1)
        )
        try:
            await self._send([plain])
        except BaseException as worse:
            if own_cancellation(worse):
                raise
            error.add_note(f"giving the message back failed too: {worse!r}")
        shown = error if isinstance(error, Exception) else BrokerError(repr(error))
        self._answered([ended])
        self._on_refused(ended, shown)

    async def _send(self, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        if self._dropped:
            await asyncio.get_running_loop().create_future()  # until its task is cancelled
        return await self._broker.settle(self._queue, settlements)


def _batch_end(waiting: Sequence[Ended]) -> int:
    """How many of them go out together: what they carry must not be too much for one call."""
    size = 0
    for count, ended in enumerate(waiting[:BATCH]):
        settlement, note = ended.settlement, ended.settlement.note
        if settlement.result or settlement.then or (note is not None and note.detail):
            size += len(settlement.result) + (len(note.detail) if note is not None else 0)
            size += sum(_BESIDE_BODY + len(draft.body) for draft in settlement.then)
            if size > BATCH_BYTES and count:
                return count
    return BATCH
