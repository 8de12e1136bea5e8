"""What mutants of keys and rates build on: a broker whose queues are of another kind."""

from __future__ import annotations

from typing import ClassVar

from bee_memory import MemoryBroker
from bee_memory.state import Queue
from bee_memory.turns import Turns


class Altered(MemoryBroker):
    """A broker with queues, or turns, of its own kind. A base, not a mutant."""

    queue_kind: ClassVar[type[Queue]] = Queue
    turns_kind: ClassVar[type[Turns]] = Turns

    def _open(self, queue: str) -> Queue:
        q = super()._open(queue)
        if type(q) is not self.queue_kind or type(q.turns) is not self.turns_kind:
            q = self.queue_kind(turns=self.turns_kind(), bells=q.bells)
            self._memory.queues[queue] = q
        return q
