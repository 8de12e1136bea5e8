"""Jobs and brokers that the tests of the core share."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import bee_core as bee
from bee_core.message import Draft, Lease, Receipt, Sent, Settlement
from bee_memory import MemoryBroker


class SendEmail(bee.Job):
    to: str
    subject: str = ""


class Resize(bee.Job, tag="resize.v2"):
    path: str
    width: int = 200
    scale: float | None = None


Jobs: TypeAlias = SendEmail | Resize


class Stranger(bee.Job):
    """A job of no queue in these tests."""

    name: str = "stranger"


class RecordingBroker(MemoryBroker):
    """A memory broker that remembers what it was asked: the verb, and the ids of a send."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[str]]] = []

    async def send(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        self.calls.append(("send", [draft.id for draft in drafts]))
        return await super().send(queue, drafts)

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        self.calls.append(("lease", []))
        return await super().lease(queue, **options)

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        self.calls.append(("settle", []))
        return await super().settle(queue, settlements)

    async def cancel(
        self, queue: str, ids: Sequence[str], *, to: bee.Terminal, running: bool = True
    ) -> AbstractSet[str]:
        self.calls.append(("cancel", list(ids)))
        return await super().cancel(queue, ids, to=to, running=running)
