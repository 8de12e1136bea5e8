"""Mutants of `settle`, its `then`, and `cancel`. For the archive see `archive`."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec

from bee_core.disposition import Reschedule, Terminal
from bee_core.message import ZERO, Note, Receipt, Report, Settlement
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue

replace = msgspec.structs.replace


class _Changed(MemoryBroker):
    """Every settlement is changed on its way in."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        raise NotImplementedError

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q = self._open(queue)
        changed = [self.change(q, settlement) for settlement in settlements]
        lost = await super().settle(queue, changed)
        pairs = zip(settlements, changed, strict=True)
        return {old.receipt for old, new in pairs if new.receipt in lost}


class NoTokenCheck(_Changed):
    """Whoever knows the id of a held message may settle it."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        message = q.live.get(settlement.receipt.id)
        if message is None or message.token is None:
            return settlement
        return replace(settlement, receipt=Receipt(message.id, message.token))


class SettleByIdOnly(_Changed):
    """Whoever knows the id of a message may settle it, whether it is held or not."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        message = q.live.get(settlement.receipt.id)
        if message is not None:
            message.token = settlement.receipt.token
        return settlement


class SettleIsTooLateByTheClock(_Changed):
    """A lease that ran out cannot be settled, though nobody took it over."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        message = q.live.get(settlement.receipt.id)
        if message is None or message.visible_at > self._memory.clock.now():
            return settlement
        return replace(settlement, receipt=Receipt(message.id, -1))


class CountersNotAdded(_Changed):
    """What a settlement adds to the counters is lost."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        return replace(settlement, counters=ZERO)


class TimeoutsAreErrors(_Changed):
    """Two kinds of trouble share a counter."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        more = settlement.counters
        return replace(
            settlement, counters=replace(more, errors=more.errors + more.timeouts, timeouts=0)
        )


class NoteIsLost(_Changed):
    """Nobody can say why a message was repeated or archived."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        return replace(settlement, note=None)


class RepeatIsAtOnce(_Changed):
    """The delay of a repeat is ignored."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        way = settlement.disposition
        if isinstance(way, Reschedule) and way.delay:
            return replace(settlement, disposition=Reschedule())
        return settlement


class ThenIsNotSent(_Changed):
    """What should follow is forgotten."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        return replace(settlement, then=())


class ThenIsNotDelayed(_Changed):
    """What follows is ready at once, whatever its delay."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        return replace(settlement, then=[replace(d, delay=0.0) for d in settlement.then])


class ThenOnlyCreates(_Changed):
    """What follows never changes or follows a live message."""

    def change(self, q: Queue, settlement: Settlement) -> Settlement:
        return replace(settlement, then=[d for d in settlement.then if d.id not in q.live])


class ThenIsSentThoughLost(MemoryBroker):
    """What follows is sent even if the receipt was lost."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost = set(await super().settle(queue, settlements))
        for settlement in settlements:
            if settlement.receipt in lost:
                await self.send(queue, settlement.then)
        return lost


class ThenBeforeTheSuccessor(MemoryBroker):
    """What follows is sent before the lease has ended."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        q = self._open(queue)
        for settlement in settlements:
            message = q.live.get(settlement.receipt.id)
            if message is not None and message.token == settlement.receipt.token:
                for draft in settlement.then:
                    self._send(q, draft)
        return set(await super().settle(queue, [replace(s, then=()) for s in settlements]))


class SettleNamesNobody(MemoryBroker):
    """Lost receipts are not reported."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        await super().settle(queue, settlements)
        return set()


class SettleStopsAtFiveHundred(MemoryBroker):
    """Of a large batch only the beginning is settled."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        return set(await super().settle(queue, settlements[:500]))


class SettleStopsAtTheFirstLost(MemoryBroker):
    """One lost receipt keeps the rest of the batch from being settled."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        for n, settlement in enumerate(settlements):
            if await super().settle(queue, [settlement]):
                return {one.receipt for one in settlements[n:]}
        return set()


class CountersLostAtRepeat(MemoryBroker):
    """A repeated message starts with counters of zero."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        message.counters = ZERO
        super()._return(q, message, due, sequence)


class RepeatKeepsTheToken(MemoryBroker):
    """A receipt is still good after its message was repeated."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        token = message.token
        super()._return(q, message, due, sequence)
        message.token = token


class RepeatIsANewMessage(MemoryBroker):
    """A repeated message is sent again as another one."""

    def _return(self, q: Queue, message: Message, due: float, sequence: int) -> None:
        message.incarnation = next(self._memory.sequence)
        super()._return(q, message, due, sequence)


class _Cancelled(MemoryBroker):
    """Ids that are held are cancelled in another way."""

    def held(self, q: Queue, message: Message, to: Terminal) -> None:
        raise NotImplementedError

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        q = self._open(queue)
        held = [id for id in ids if id in q.live and q.live[id].token is not None and running]
        for id in held:
            self.held(q, q.live[id], to)
        rest = [id for id in ids if id not in held]
        return set(await super().cancel(queue, rest, to=to, running=running))


class CancelLeavesTheLease(_Cancelled):
    """The holder of a cancelled message may still settle it."""

    def held(self, q: Queue, message: Message, to: Terminal) -> None:
        self._keep_if_archived(q, message, to)


class CancelGivesItBack(_Cancelled):
    """A cancelled message is taken from its holder and given to the next."""

    def held(self, q: Queue, message: Message, to: Terminal) -> None:
        self._dispose(q, message, Reschedule(front=True), Report(message.id, Note("cancelled")))


class CancelTakesTheSuccessorToo(_Cancelled):
    """Cancelling a held message loses its successor."""

    def held(self, q: Queue, message: Message, to: Terminal) -> None:
        message.successor, message.note = None, Note("cancelled")
        self._dispose(q, message, to, Report(message.id, message.note))


class CancelSparesNobody(MemoryBroker):
    """A held message is cancelled even if it was to be spared."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        return set(await super().cancel(queue, ids, to=to))


class CancelOnlyDeletes(MemoryBroker):
    """A cancelled message is never archived."""

    def _keep_if_archived(self, q: Queue, message: Message, to: Terminal) -> None:
        if message.note is None or message.note.reason != "cancelled":
            super()._keep_if_archived(q, message, to)


class CancelNamesNobody(MemoryBroker):
    """Ids that had nothing to cancel are not reported."""

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: Terminal, running: bool = True
    ) -> set[str]:
        await super().cancel(queue, ids, to=to, running=running)
        return set()


class PlainOnesAreSettledFirst(MemoryBroker):
    """Messages that are only deleted go before the others, whatever those send."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        return await super().settle(queue, sorted(settlements, key=lambda each: bool(each.then)))
