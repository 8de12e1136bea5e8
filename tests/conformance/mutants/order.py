"""Mutants of the order of delivery."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bee_core.disposition import Disposition, Reschedule
from bee_core.message import Report
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue

Key = Callable[[Message], Any]


@dataclass(slots=True, eq=False)
class _Sorted(Queue):
    """A queue that gives out what comes first by any key."""

    key: Key = field(default=lambda message: message.place)

    def first(self, now: float) -> Message | None:
        ready = (m for m in self.live.values() if m.visible_at <= now)
        return min(ready, key=self.key, default=None)


class _Reordered(MemoryBroker):
    """A broker with an order of its own."""

    @staticmethod
    def key(message: Message) -> Any:
        raise NotImplementedError

    def _open(self, queue: str) -> Queue:
        if queue not in self._memory.queues:
            super()._open(queue)
            self._memory.queues[queue] = _Sorted(key=self.key)
        return super()._open(queue)


class LastInFirstOut(_Reordered):
    """The newest message comes first."""

    @staticmethod
    def key(message: Message) -> Any:
        return -message.priority, -message.due, -message.sequence


class OrderedById(_Reordered):
    """Messages due at the same time are ordered by the text of their ids."""

    @staticmethod
    def key(message: Message) -> Any:
        return -message.priority, message.due, message.id


class PriorityInverted(_Reordered):
    """The lowest priority comes first."""

    @staticmethod
    def key(message: Message) -> Any:
        return message.priority, message.due, message.sequence


class PriorityIgnored(_Reordered):
    """Priority has no effect."""

    @staticmethod
    def key(message: Message) -> Any:
        return message.due, message.sequence


class PriorityAfterTime(_Reordered):
    """Priority only decides between messages due at the same moment."""

    @staticmethod
    def key(message: Message) -> Any:
        return message.due, -message.priority, message.sequence


class TwoPriorities(_Reordered):
    """Only the sign of a priority counts."""

    @staticmethod
    def key(message: Message) -> Any:
        return (message.priority < 0) - (message.priority > 0), message.due, message.sequence


class TimeDueIgnored(_Reordered):
    """Messages come in the order they were sent, whenever they fall due."""

    @staticmethod
    def key(message: Message) -> Any:
        return -message.priority, message.sequence


class SequenceIgnored(_Reordered):
    """Messages due at the same time come in any order."""

    @staticmethod
    def key(message: Message) -> Any:
        return -message.priority, message.due, zlib.crc32(message.id.encode())


class FrontIsTheBack(MemoryBroker):
    """A message given back to the front goes to the back."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        if isinstance(disposition, Reschedule) and disposition.front:
            disposition = Reschedule()
        return super()._dispose(q, message, disposition, end, keep)


class FrontIsBeforeAll(MemoryBroker):
    """A message given back to the front comes before those that stood before it."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        if isinstance(disposition, Reschedule) and disposition.front:
            message.due, message.sequence = 0.0, -next(self._memory.sequence)
        return super()._dispose(q, message, disposition, end, keep)


class BackIsTheFront(MemoryBroker):
    """A repeated message keeps its old place."""

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        if disposition == Reschedule():
            disposition = Reschedule(front=True)
        return super()._dispose(q, message, disposition, end, keep)
