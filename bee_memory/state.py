"""What the memory broker remembers: messages, their order, their ends, and who waits for them.

Only data structures live here. What the verbs mean is in `broker.py` and `inspector.py`.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

import msgspec

from bee_core.clock import Clock, finish
from bee_core.errors import BrokerClosed
from bee_core.forks import is_forked, this_process
from bee_core.message import Draft, Receipt, Report, Update
from bee_core.stored import Episode, Stored
from bee_memory.messages import Arrival, Message, Place
from bee_memory.turns import Turns


@dataclass(slots=True)
class Announced:
    """What somebody has said of itself, and for how long that holds."""

    since: float
    until: float
    about: str


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
    turns: Turns = field(default_factory=Turns)
    results: dict[str, tuple[float, Report]] = field(default_factory=dict)  # until when, what
    forgotten: list[tuple[float, str]] = field(default_factory=list)
    reports: defaultdict[str, dict[str, Report]] = field(default_factory=lambda: defaultdict(dict))
    created: int = 0
    announced: dict[str, Announced] = field(default_factory=dict)  # by name

    def create(self, arrival: Arrival, now: float, history: Sequence[Episode] = ()) -> None:
        """A draft becomes a fresh message."""
        self.created += 1
        message = arrival.message()
        message.history = tuple(history)
        self.enter(message, now)

    def enter(self, message: Message, now: float) -> None:
        """The message waits, from its due time on."""
        message.visible_at = message.due
        message.parked = False
        self.live[message.id] = message
        self.order(message, now)

    def forget_reports(self, id: str) -> None:
        """What was reported to an id goes with the last message that can read it."""
        message = self.live.get(id)
        awaits = message is not None and message.awaits > 0
        if id in self.reports and not awaits and self.archived(id) is None:
            del self.reports[id]

    def hear(self, id: str, told: Sequence[Report]) -> bool:
        """Add what was reported to a message, if one is left that can read it.

        Whether one that has never been delivered, and is not due yet, has now heard all it awaits.
        """
        message = self.live.get(id)
        awaits = message.awaits if message is not None else 0
        if not awaits and self.archived(id) is None:
            return False
        before = len(self.reports[id])
        for end in told:
            self.reports[id].setdefault(end.id, end)
        fresh = message is not None and not message.counters.deliveries and message.token is None
        return fresh and before < awaits <= len(self.reports[id])

    def keep(self, end: Report, until: float, now: float) -> None:
        """Remember how a message ended, and forget what is remembered for too long."""
        self.results[end.id] = (until, end)
        heapq.heappush(self.forgotten, (until, end.id))
        while self.forgotten[0][0] <= now:
            _, id = heapq.heappop(self.forgotten)
            if id in self.results and self.results[id][0] <= now:
                del self.results[id]

    def let_go(self, key: str | None, id: str, now: float) -> None:
        """A message leaves its key, or its place in it: look at the next one."""
        if key is not None:
            self.turns.let_go(key, id)
            self.unpark(key, now)

    def unpark(self, key: str, now: float) -> None:
        """Look again at the first of those that wait for a key."""
        while (message := self.turns.next(key)) is not None:
            if self.live.get(message.id) is message:
                self.order(message, now)
                return

    def order(self, message: Message, now: float) -> None:
        """Put the message into the heap that its times call for."""
        if message.visible_at <= now:
            heapq.heappush(self.ready, (message.place, message))
        else:
            heapq.heappush(self.hidden, (message.visible_at, message.sequence, message))

    def first(self, now: float) -> Message | None:
        """The ready message that is next in order."""
        while (key := self.turns.woken(now)) is not None:
            self.unpark(key, now)
        while self.hidden and self.hidden[0][0] <= now:
            when, _, message = heapq.heappop(self.hidden)
            if self.live.get(message.id) is message and message.visible_at == when:
                heapq.heappush(self.ready, (message.place, message))
        while self.ready:
            place, message = self.ready[0]
            current = self.live.get(message.id) is message
            waits = message.visible_at <= now and not message.parked
            if current and waits and message.place == place:
                return message
            heapq.heappop(self.ready)
            if current and message.visible_at > now:  # the clock was set back, or it was extended
                heapq.heappush(self.hidden, (message.visible_at, message.sequence, message))
        return None

    def taken(self, message: Message, now: float) -> None:
        """The first one is leased: it is ready again when its lease has run out."""
        heapq.heappop(self.ready)
        self.order(message, now)

    def held(self, receipt: Receipt) -> Message | None:
        """The message this receipt holds; None if the receipt is lost."""
        message = self.live.get(receipt.id)
        return message if message is not None and message.token == receipt.token else None

    def next_at(self, now: float) -> float:
        """When something may be ready: `now`, or later, or never."""
        if self.first(now):
            return max(now, self.turns.quiet_until)
        coming = [heap[0][0] for heap in (self.hidden, self.turns.wakes) if heap]
        return min(coming, default=math.inf)

    def archived(self, id: str) -> Stored | None:
        """The message of that id that was archived last."""
        return next((stored for stored in reversed(self.archive.values()) if stored.id == id), None)

    def sort_archive(self) -> None:
        """What came from elsewhere may be older than what was here."""
        in_order = sorted(self.archive.values(), key=lambda s: (s.archived_at, s.incarnation))
        self.archive = {(stored.id, stored.incarnation): stored for stored in in_order}

    def announce(self, holder: str, about: str, now: float, until: float) -> None:
        """Remember who works here, and forget those who have been silent for too long."""
        self.announced = {name: a for name, a in self.announced.items() if a.until > now}
        before = self.announced.pop(holder, None)
        if until > now:
            since = now if before is None else before.since
            self.announced[holder] = Announced(since, until, about)

    def ring(self, times: int, now: float) -> None:
        """Wake that many of those who wait; all, if nothing is ready yet: for when it will be."""
        if times > 0 and not self.first(now):
            times = len(self.bells)
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
        self._lock = threading.RLock()
        self._owner: int | None = None
        self.queues: dict[str, Queue] = {}
        self.token = 0  # the last one that was given
        self.sequence = count(1)

    @property
    def lock(self) -> threading.RLock:
        """What every verb holds. A forked child, which has only a copy of the store, is refused.

        Before the lock is asked for: it may have been held by another thread as the child began.
        """
        if is_forked(self._owner):
            raise BrokerClosed(
                "this MemoryBroker was used before a fork: its jobs are in the parent process"
            )
        self._owner = this_process()
        return self._lock

    def next_token(self) -> int:
        """One that no lease has had."""
        self.token += 1
        return self.token

    def queue(self, name: str) -> Queue:
        """The queue of that name, which exists from now on."""
        return self.queues.setdefault(name, Queue())

    def arrive(self, draft: Draft, rule: Update, now: float) -> Arrival:
        """Give a draft its number and its times, and keep nothing that its sender could change."""
        if draft.headers:
            draft = msgspec.structs.replace(draft, headers=MappingProxyType(dict(draft.headers)))
        return Arrival(draft, rule, next(self.sequence), now + draft.delay, now)
