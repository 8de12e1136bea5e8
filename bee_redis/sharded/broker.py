"""Senders and workers: each verb on the parts that it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from bee_core.broker import NOTHING, Spread
from bee_core.checks import (
    check_about,
    check_draft,
    check_holder,
    check_id,
    check_ids,
    check_settlement,
    check_terminal,
    check_whole,
)
from bee_core.disposition import Terminal
from bee_core.duration import seconds
from bee_core.errors import BrokerError, BrokerMisconfigured, IdTaken, InvalidName, InvalidOption
from bee_core.message import (
    THROTTLE,
    Draft,
    Lease,
    Receipt,
    Reject,
    Report,
    Sent,
    Settlement,
    Throttle,
)
from bee_redis.pages import MOST
from bee_redis.sharded.inspector import ShardedInspector
from bee_redis.sharded.parts import check_ties, check_together, id_in, part_of, split
from bee_redis.sharded.session import PASSING
from bee_redis.sharded.together import together


class Taken:
    """What one call of `lease` has so far."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.leases: list[Lease] = []
        self.trouble: list[BrokerError] = []

    def add(self, leases: Sequence[Lease]) -> None:
        """More of them."""
        self.leases += leases
        self.room -= len(leases)


class ShardedBroker(ShardedInspector, Spread):
    """Messages on a Redis or Valkey cluster, each queue on several of its nodes."""

    def id_beside(self, id: str) -> str:
        return id_in(part_of(id, self._spread), self._spread)

    def check_beside(self, id: str, drafts: Sequence[Draft]) -> None:
        check_together(id, drafts, self._spread)

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        """All or nothing for each part; OutcomeUnknown if only some parts have theirs."""
        if len({check_draft(draft).id for draft in drafts}) < len(drafts):
            raise InvalidName("the ids of one send must be distinct")
        if len(drafts) > MOST:
            raise InvalidOption(f"{len(drafts)} drafts in one send; at most {MOST}")
        check_ties(drafts, self._spread)
        by_part = split(drafts, lambda draft: draft.id, self._spread)
        if len(by_part) > 1 and any(isinstance(draft.if_taken, Reject) for draft in drafts):
            raise InvalidOption(
                "drafts with Reject() on several shards cannot be sent all or none: send them one "
                "by one, or with one tag such as '{order-7}' in their ids"
            )
        names = await self._parts_of(queue, claim=bool(drafts))
        self._watch(queue).changed()
        calls = [self._parts.send(names[part], some) for part, some in by_part.items()]
        try:
            told = await together(calls)
        except IdTaken as error:  # which knows the part alone
            raise IdTaken(queue, error.ids) from None
        sent: dict[str, Sent] = {}
        for some, answers in zip(by_part.values(), told, strict=True):
            sent |= zip((draft.id for draft in some), answers, strict=True)
        return [sent[draft.id] for draft in drafts]

    async def lease(
        self,
        queue: str,
        *,
        limit: int,
        duration: float,
        holder: str,
        throttle: Throttle = THROTTLE,
    ) -> Sequence[Lease]:
        """One part, and others only while there is room. They take turns at being the first.

        In order within a part. After a wait: the parts in which something is expected, and others
        only if there is nothing; if it was in vain, some of the parts, in turn. Of a part that
        cannot be reached only those hear who get nothing elsewhere.
        """
        check_whole(limit, "limit", least=1)
        check_holder(holder)
        seconds(duration, "duration", least=0.001)
        if throttle.rate is not None and self._spread > 1:
            raise BrokerMisconfigured(
                f"queue {queue!r} is spread over {self._spread} shards, which cannot keep a rate "
                "of the whole queue: use key_rate, or a queue without shards for these jobs"
            )
        names = await self._parts_of(queue)

        def lease(name: str, limit: int) -> Coroutine[Any, Any, tuple[float, Sequence[Lease]]]:
            return self._parts._lease(name, limit, duration, holder, throttle)

        taken, until = Taken(min(limit, MOST)), self._until()
        woken, others = self._watch(queue).plan()
        for name in await self._take([names[part] for part in woken], taken, lease, until):
            self._parts.pass_on(name)  # there is no room here for what may be ready there
        if not taken.leases:
            await self._take([names[part] for part in others], taken, lease, until)
        if taken.leases:
            return taken.leases
        if taken.trouble:
            raise taken.trouble[0]
        return []

    async def _take(
        self,
        names: Sequence[str],
        taken: Taken,
        lease: Callable[[str, int], Coroutine[Any, Any, tuple[float, Sequence[Lease]]]],
        until: float,
    ) -> Sequence[str]:
        """Lease from these parts: all from the first if it has enough, else a share from each.

        Returns those that were not asked.
        """
        loop = asyncio.get_running_loop()
        taken.trouble += (self._avoided[name].error for name in names if name in self._avoided)
        left = [name for name in names if name not in self._avoided]
        at_once, unasked = 1, set(left)
        while left and taken.room > 0 and loop.time() < until:
            asked, left = left[:at_once], left[at_once:]
            unasked -= set(asked)
            share = taken.room // len(asked)
            calls = (lease(name, share) for name in asked)
            fatal: list[BaseException] = []
            for name, answer in zip(
                asked, await asyncio.gather(*calls, return_exceptions=True), strict=True
            ):
                if isinstance(answer, PASSING):
                    taken.trouble.append(answer)
                    self._avoid(name, answer)
                elif isinstance(answer, BaseException):
                    fatal.append(answer)
                else:
                    pause, leases = answer
                    taken.add(leases)
                    self._parts._expect(name, pause)
                    if len(leases) == share:
                        left.append(name)
            if fatal and not taken.leases:
                raise fatal[0]
            if fatal:
                break  # what is leased has to reach its holder: the error is for the next call
            at_once = taken.room
        return [name for name in names if name in unasked]

    async def wait(self, queue: str, *, timeout: float) -> None:
        """Return when some part has rung, or something is due in one. It listens to all of them."""
        timeout = seconds(timeout, "timeout")
        names = await self._parts_of(queue)
        rung, trouble = await self._listen(names, timeout) if timeout > 0 else (None, [])
        if rung is not None:
            self._watch(queue).woken(rung)
            return
        self._watch(queue).polled()
        if trouble:
            raise trouble[0]

    async def _listen(
        self, names: Sequence[str], timeout: float
    ) -> tuple[int | None, list[BrokerError]]:
        """The part that rang in that time, and what went wrong. One that fails stops no other."""
        loop = asyncio.get_running_loop()
        until, longer = loop.time() + timeout, timeout + 1.0
        waits = {
            asyncio.create_task(self._parts.wait(name, timeout=longer), name="bee:wait"): part
            for part, name in enumerate(names)
        }
        pending: set[asyncio.Task[None]] = set(waits)
        rung: int | None = None
        trouble: list[BrokerError] = []
        try:
            while pending and rung is None and (left := until - loop.time()) > 0:
                done, pending = await asyncio.wait(
                    pending, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                for wait in done:
                    error = wait.exception()
                    if isinstance(error, PASSING):
                        trouble.append(error)
                    elif error is not None:
                        raise error
                    elif rung is None:
                        rung = waits[wait]
        finally:
            for wait, part in waits.items():
                if wait.cancel() or wait.cancelled():
                    continue
                if wait.exception() is None and part != rung:
                    self._parts.pass_on(names[part])  # that one is for somebody else
        return rung, trouble

    async def extend(
        self,
        queue: str,
        receipts: Sequence[Receipt],
        *,
        duration: float,
        progress: Mapping[str, str] = NOTHING,
        remarks: Mapping[str, str] = NOTHING,
    ) -> AbstractSet[Receipt]:
        seconds(duration, "duration", least=0.001)
        by_part = split(receipts, lambda one: one.id, self._spread)
        names = await self._parts_of(queue)
        extend = partial(self._parts.extend, duration=duration, progress=progress, remarks=remarks)
        calls = [extend(names[part], some) for part, some in by_part.items()]
        return set().union(*await together(calls))

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        """Each in one step with what it sends: that must be in its part, else InvalidOption."""
        for settlement in settlements:
            check_settlement(settlement)
            if settlement.then:
                check_together(settlement.receipt.id, settlement.then, self._spread)
        by_part = split(settlements, lambda one: one.receipt.id, self._spread)
        names = await self._parts_of(queue)
        self._watch(queue).changed()
        calls = [self._parts.settle(names[part], some) for part, some in by_part.items()]
        return set().union(*await together(calls))

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> AbstractSet[str]:
        check_terminal(to)
        by_part = split(check_ids(ids), str, self._spread)
        names = await self._parts_of(queue)
        self._watch(queue).changed()
        cancel = partial(self._parts.cancel, to=to, running=running)
        calls = [cancel(names[part], some) for part, some in by_part.items()]
        return set().union(*await together(calls))

    async def results(self, queue: str, ids: Sequence[str]) -> Mapping[str, Report]:
        by_part = split(check_ids(ids), str, self._spread)
        names = await self._parts_of(queue)
        calls = [self._parts.results(names[part], some) for part, some in by_part.items()]
        found: dict[str, Report] = {}
        for some in await together(calls, changes=False):
            found |= some
        return found

    async def reports(
        self, queue: str, id: str, *, after: str = "", limit: int = 1000
    ) -> Sequence[Report]:
        part = part_of(check_id(id), self._spread)
        names = await self._parts_of(queue)
        return await self._parts.reports(names[part], id, after=after, limit=limit)

    async def announce(self, queue: str, holder: str, *, about: str, duration: float) -> None:
        """In one part: `workers` asks all."""
        lasts = seconds(duration, "duration") > 0
        check_about(about)
        part = part_of(check_holder(holder), self._spread)
        names = await self._parts_of(queue, claim=lasts)
        await self._parts.announce(names[part], holder, about=about, duration=duration)
