"""What the memory broker remembers: messages, their order, and who waits for them.

Only data structures live here. What the verbs mean is in `broker.py` and `inspector.py`.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from bee_core.clock import Clock, finish
from bee_core.message import ZERO, Counters, Draft, Note, State, Stored, Update

Place: TypeAlias = tuple[int, float, int]
"""The order of delivery: priority (higher first), then time due, then sequence."""


@dataclass(slots=True, eq=False)
class Arrival:
    """A draft that has reached the store. A leased message keeps one as its successor.

    `rule` is what it may change in a message that is already there; `number` is its
    place in the sequence, and its incarnation if it becomes a message.
    """

    draft: Draft
    rule: Update
    number: int
    due: float
    sent_at: float

    def message(self) -> Message:
        """The fresh message that this becomes if nothing stands in its way."""
        return Message(
            id=self.draft.id,
            incarnation=self.number,
            sequence=self.number,
            body=self.draft.body,
            headers=self.draft.headers,
            priority=self.draft.priority,
            sent_at=self.sent_at,
            due=self.due,
            visible_at=self.due,
        )


@dataclass(slots=True, eq=False)
class Message:
    """A live message. `visible_at` is the one fact behind delay, lease and repeat."""

    id: str
    incarnation: int
    sequence: int
    body: bytes
    headers: Mapping[str, str]
    priority: int
    sent_at: float
    due: float
    visible_at: float
    counters: Counters = ZERO
    token: int | None = None
    holder: str | None = None
    note: Note | None = None
    successor: Arrival | None = None

    @property
    def place(self) -> Place:
        return (-self.priority, self.due, self.sequence)

    def state(self, now: float) -> State:
        if self.visible_at <= now:
            return State.READY
        return State.DELAYED if self.token is None else State.LEASED

    def stored(self, state: State, archived_at: float | None = None) -> Stored:
        return Stored(
            id=self.id,
            incarnation=self.incarnation,
            state=state,
            body=self.body,
            headers=self.headers,
            priority=self.priority,
            counters=self.counters,
            sent_at=self.sent_at,
            due_at=self.due,
            holder=self.holder,
            leased_until=self.visible_at if state is State.LEASED else None,
            note=self.note,
            archived_at=archived_at,
        )


@dataclass(slots=True, eq=False)
class Queue:
    """One queue: its live messages, the two heaps that order them, its archive, its bells.

    The heaps may hold entries that time has overtaken; an entry counts only while it
    still says what its message says.
    """

    live: dict[str, Message] = field(default_factory=dict)
    archive: dict[tuple[str, int], Stored] = field(default_factory=dict)  # oldest first
    paused: bool = False
    ready: list[tuple[Place, Message]] = field(default_factory=list)
    hidden: list[tuple[float, int, Message]] = field(default_factory=list)
    bells: deque[asyncio.Future[None]] = field(default_factory=deque)

    def enter(self, message: Message, now: float) -> None:
        """The message waits, from its due time on."""
        message.visible_at = message.due
        self.live[message.id] = message
        self.order(message, now)

    def order(self, message: Message, now: float) -> None:
        """Put the message into the heap that its times call for."""
        if message.visible_at <= now:
            heapq.heappush(self.ready, (message.place, message))
        else:
            heapq.heappush(self.hidden, (message.visible_at, message.sequence, message))

    def first(self, now: float) -> Message | None:
        """The ready message that is next in order."""
        while self.hidden and self.hidden[0][0] <= now:
            when, _, message = heapq.heappop(self.hidden)
            if self.live.get(message.id) is message and message.visible_at == when:
                heapq.heappush(self.ready, (message.place, message))
        while self.ready:
            place, message = self.ready[0]
            current = self.live.get(message.id) is message
            if current and message.visible_at <= now and message.place == place:
                return message
            heapq.heappop(self.ready)
        return None

    def archived(self, id: str) -> Stored | None:
        """The message of that id that was archived last."""
        return next((stored for stored in reversed(self.archive.values()) if stored.id == id), None)

    def ring(self, times: int) -> None:
        """Wake that many of those who wait."""
        while times > 0 and self.bells:
            bell = self.bells.popleft()
            try:
                bell.get_loop().call_soon_threadsafe(finish, bell)
            except RuntimeError:  # its event loop is closed: nobody is there any more
                continue
            times -= 1


class Memory:
    """The store that a broker and its clones share."""

    def __init__(self, clock: Clock, max_length: int | None) -> None:
        self.clock = clock
        self.max_length = max_length
        self.lock = threading.RLock()
        self.queues: dict[str, Queue] = {}
        self.tokens = count(1)
        self.sequence = count(1)

    def queue(self, name: str) -> Queue:
        """The queue of that name, which exists from now on."""
        return self.queues.setdefault(name, Queue())

    def arrive(self, draft: Draft, rule: Update, now: float) -> Arrival:
        """Give a draft its number and its times, and keep nothing that its sender could change."""
        if draft.headers:
            draft = msgspec.structs.replace(draft, headers=MappingProxyType(dict(draft.headers)))
        return Arrival(draft, rule, next(self.sequence), now + draft.delay, now)
