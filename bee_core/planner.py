"""Seeing to it that every schedule is kept in the store: as a worker starts, and now and then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from bee_core.broker import Broker, Inspector
from bee_core.clock import Clock
from bee_core.codec import KIND_HEADER
from bee_core.errors import DecodeError
from bee_core.message import Draft, Sent, Update
from bee_core.schedule import Plan
from bee_core.stored import State, Stored
from bee_core.ticks import SCHEDULE, Declared, Due, plan_of
from bee_core.trouble import Trouble, own_cancellation

T = TypeVar("T")

EVERY = 600.0
"""Seconds after which it is made sure again that nobody has purged a schedule."""
_BATCH = 100
_AT_ONCE = 1.0
"""Seconds within which a tick is settled if all is well."""
_WAKE = Update(payload=False, run_at="always", policy=False, reset_counts=False)


class Planner:
    """Plans the schedules of one queue for one worker. Any number may do so at once."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        declared: Collection[Declared],
        *,
        clock: Clock,
        trouble: Trouble,
        on_planned: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._declared = declared
        self._clock = clock
        self._trouble = trouble
        self._on_planned = on_planned
        self._bell = clock.alarm()
        self._shifted: list[Declared] = []
        self.planned = not declared
        """Whether every schedule has been seen to be in the store."""

    async def run(self) -> None:
        """Plan what is not planned, for ever. What cannot be done now is tried again."""
        while True:
            batches = _batches(list(self._declared))
            kept = [one for batch in batches for one in await self._ensure(batch)]
            if not self.planned:
                await self._wake(await self._changed(kept))
                self.planned = True
                self._on_planned()
            again = self._clock.now() + EVERY
            while (left := again - self._clock.now()) > 0:
                await self._bell.wait(left)
                shifted, self._shifted = self._shifted, []
                await self._wake(shifted)

    def settled(self, due: Due, duration: float) -> None:
        """A tick has been settled, which took so long. From then on its next delay is counted.

        So if the store was in trouble meanwhile, it would be late for its next instant.
        """
        if duration > _AT_ONCE:
            self._shifted.append(due.declared)
            self._bell.ring()

    async def is_empty(self, store: Inspector) -> bool:
        """Whether nothing is left in the queue but its own schedules, waiting for their time."""
        if not self.planned:
            return False
        stats = await store.stats(self._queue)
        if not stats.live:
            return True
        if stats.live > stats.delayed or stats.delayed > len(self._declared):
            return False
        waiting = 0
        for one in self._declared:
            stored = await store.get(self._queue, one.id)
            waiting += stored is not None and stored.state is State.DELAYED and _is_schedule(stored)
        return waiting == stats.delayed

    async def _ensure(self, batch: Sequence[Declared]) -> list[Declared]:
        """Send what is missing, to be worked out by who leases it. Return what was there."""
        sent = await self._send([one.message(_fresh(one)) for one in batch])
        return [one for one, what in zip(batch, sent, strict=True) if what is Sent.KEPT]

    async def _changed(self, kept: Sequence[Declared]) -> list[Declared]:
        """Those that wait by another declaration. An instant that is due stays as it is."""
        changed: list[Declared] = []
        if not isinstance(self._broker, Inspector):
            return changed
        for one in kept:
            stored = await self._try("get", partial(self._get, one.id))
            if stored is not None and stored.state is State.DELAYED and _differs(one, stored):
                changed.append(one)
        return changed

    async def _wake(self, declared: Sequence[Declared]) -> None:
        """Let somebody look at them now, and work out anew for how long they have to wait."""
        drafts = {one.id: one.message(_fresh(one), if_taken=_WAKE) for one in declared}
        for batch in _batches(list(drafts.values())):
            await self._send(batch)

    async def _send(self, drafts: Sequence[Draft]) -> Sequence[Sent]:
        return await self._try("send", lambda: self._broker.send(self._queue, drafts))

    async def _get(self, id: str) -> Stored | None:
        assert isinstance(self._broker, Inspector)
        return await self._broker.get(self._queue, id)

    async def _try(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                answer = await call()
            except BaseException as error:  # what waiting cannot mend, the fetcher meets, too
                if own_cancellation(error):
                    raise
                await self._trouble.back_off(verb, error)
            else:
                self._trouble.over(verb)
                return answer


def _batches(whole: list[T]) -> list[list[T]]:
    return [whole[start : start + _BATCH] for start in range(0, len(whole), _BATCH)]


def _fresh(declared: Declared) -> Plan:
    return Plan(str(declared.schedule.timing))


def _is_schedule(stored: Stored) -> bool:
    return stored.headers.get(KIND_HEADER) == SCHEDULE


def _differs(declared: Declared, stored: Stored) -> bool:
    try:
        return _is_schedule(stored) and plan_of(stored.body).timing != _fresh(declared).timing
    except DecodeError:
        return False
