"""Mutants of `send`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bee_core.errors import IdTaken
from bee_core.message import Draft, Keep, Receipt, Reject, Sent, Settlement
from bee_core.testing.clock import ManualClock
from bee_memory import MemoryBroker
from bee_memory.state import Queue


class SendTwiceStoresTwice(MemoryBroker):
    """Sending a live id again replaces its message instead of keeping it."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        if isinstance(draft.if_taken, Keep):
            q.live.pop(draft.id, None)
        return super()._send(q, draft)


class KeptSaysCreated(MemoryBroker):
    """A send that changed nothing claims to have created a message."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        return Sent.CREATED if sent is Sent.KEPT else sent


class IdsOfTheArchiveAreTaken(MemoryBroker):
    """An id stays taken after its message was archived."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        return Sent.KEPT if q.archived(draft.id) else super()._send(q, draft)


class DelayIgnored(MemoryBroker):
    """A delayed message is ready at once."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        return super()._send(q, msgspec.structs.replace(draft, delay=0.0))


class DelayInWholeSeconds(MemoryBroker):
    """A fraction of a second is cut off."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        return super()._send(q, msgspec.structs.replace(draft, delay=float(int(draft.delay))))


class BatchBackwards(MemoryBroker):
    """The drafts of one send are stored last first."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        return list(reversed(await super().send(queue, list(reversed(drafts)))))


class RejectStoresHalf(MemoryBroker):
    """A batch that is refused leaves behind what stood before the taken id."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        sent: list[Sent] = []
        for draft in drafts:
            sent += await super().send(queue, [draft])
        return sent


class RejectOnlyLooksAtWaiting(MemoryBroker):
    """A held id is not refused."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        try:
            return await super().send(queue, drafts)
        except IdTaken as taken:
            q = self._open(queue)
            if any(q.live[id].token is None for id in taken.ids):
                raise
            kept = Keep()
            return await super().send(
                queue, [msgspec.structs.replace(draft, if_taken=kept) for draft in drafts]
            )


class BodyAsText(MemoryBroker):
    """A body goes through UTF-8 and comes back changed."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        text = draft.body.decode("utf-8", "replace")
        return super()._send(q, msgspec.structs.replace(draft, body=text.encode()))


class BodyEndsAtNul(MemoryBroker):
    """A body is cut at its first NUL byte."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        return super()._send(q, msgspec.structs.replace(draft, body=draft.body.split(b"\0")[0]))


class HeadersLost(MemoryBroker):
    """Headers are not stored."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        return super()._send(q, msgspec.structs.replace(draft, headers={}))


class HeadersAreShared(MemoryBroker):
    """A message changes with the mapping it was made from."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        if sent is Sent.CREATED:
            q.live[draft.id].headers = draft.headers
        return sent


class IdsFoldCase(MemoryBroker):
    """Ids that differ only in case or in spaces around them are one."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        folded = {id.strip().lower(): id for id in q.live}
        id = folded.get(draft.id.strip().lower(), draft.id)
        return super()._send(q, msgspec.structs.replace(draft, id=id))


class IncarnationsStartAgain(MemoryBroker):
    """Every life of an id is its first."""

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        if sent is Sent.CREATED:
            q.live[draft.id].incarnation = 1
        return sent


class QueuesAreOne(MemoryBroker):
    """What is in one queue is in every queue."""

    def _open(self, queue: str) -> Queue:
        super()._open(queue)
        return self._memory.queue("one_for_all")


class CloneIsAnotherStore(MemoryBroker):
    """A clone does not see what the first one sees."""

    def clone(self) -> MemoryBroker:
        return type(self)(clock=ManualClock())


class CloneDiesWithItsParent(MemoryBroker):
    """Closing a broker closes the clones made from it."""

    def clone(self) -> MemoryBroker:
        clone = super().clone()
        vars(self).setdefault("_children", []).append(clone)
        return clone

    async def aclose(self) -> None:
        await super().aclose()
        for child in vars(self).get("_children", ()):
            await child.aclose()


class ClosedGoesOn(MemoryBroker):
    """A closed broker still works."""

    async def aclose(self) -> None:
        pass


class ClosingTwiceFails(MemoryBroker):
    """A broker can be closed only once."""

    async def aclose(self) -> None:
        self._check_open()
        await super().aclose()


class NamesAreNotChecked(MemoryBroker):
    """Any text is taken for a queue name."""

    def _open(self, queue: str) -> Queue:
        self._check_open()
        return self._memory.queue(queue)


class ThenIsNotChecked(MemoryBroker):
    """A bad draft among what follows is found out when half is done."""

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> set[Receipt]:
        lost: set[Receipt] = set()
        for settlement in settlements:
            lost |= await super().settle(queue, [settlement])
        return lost


class RejectBlamesTheWholeBatch(MemoryBroker):
    """The error of a refused send names ids that were free."""

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        try:
            return await super().send(queue, drafts)
        except IdTaken:
            raise IdTaken(queue, [d.id for d in drafts if isinstance(d.if_taken, Reject)]) from None
