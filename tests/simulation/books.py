"""What really happened in a simulated run: the store as it was told, the handlers as they ran."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bee_core.disposition import Archive, Delete, Disposition
from bee_core.events import Event
from bee_core.message import Counters, Draft, Lease, Receipt, Report, Sent, Settlement
from bee_core.strategy import Policy
from bee_core.testing.simulation import Process
from bee_core.testing.simulation.simulation import SimulatedClock
from bee_memory import MemoryBroker
from bee_memory.messages import Message
from bee_memory.state import Queue

QUEUE = "jobs"
DEADLINE = 8.0
"""Seconds within which every call of a store ends, well or badly."""

Life: TypeAlias = tuple[str, int]
"""An id and its incarnation."""


@dataclass
class Leased:
    """A lease that the store has given."""

    id: str
    life: Life
    token: int
    holder: str
    at: float
    """By the simulation's clock, as all times; but `until` and `lapsed` are by the store's."""
    until: float
    counters: Counters
    took_over: int | None
    """The token of the lease that had run out."""
    cancelled: bool = False
    lapsed: float = math.inf
    """When it first ran out, if it was renewed after that."""


@dataclass
class Run:
    """A call of the handler."""

    id: str
    token: int
    move: str
    process: Process
    started: float
    timeout: float
    ended: float = math.inf
    how: str = "runs"
    told: list[float] = field(default_factory=list)
    """When it was told to stop."""
    follows: str = ""
    """The id of what is to follow from it, if it succeeds."""


@dataclass
class Member:
    """A worker, and what is known of it."""

    process: Process
    worker: Any
    concurrency: int
    running: list[Run] = field(default_factory=list)
    ended: int = 0
    stopping: float = math.inf
    killed: float = math.inf
    """When it was told to die, but for -9."""
    cancelled: bool = False
    was_alive: bool = True
    """Whether nobody has killed it by -9."""
    over: bool = False
    error: BaseException | None = None
    events: list[Event] = field(default_factory=list)
    faults: dict[str, float] = field(default_factory=dict)
    """The verbs that failed for it, and when they last did."""
    slow: bool = False
    """Whether answers may come so late that a lease has run out meanwhile."""
    lost: dict[int, float] = field(default_factory=dict)
    """By token: when it had the answer that a lease is lost."""
    answered: set[int] = field(default_factory=set)
    """The tokens for which it has the answer to a settlement."""
    given_up: set[int] = field(default_factory=set)
    """The tokens of which it has said that they are lost."""

    @property
    def busy(self) -> int:
        """How many handlers run that nobody has told to stop."""
        return sum(not run.told for run in self.running)


class Books:
    """Everything that is known of one run, and what is wrong with it."""

    def __init__(self) -> None:
        self.created: dict[Life, float] = {}
        self.ended: defaultdict[Life, list[Disposition]] = defaultdict(list)
        self.leases: dict[int, Leased] = {}
        self.current: dict[Life, int] = {}
        self.settled: defaultdict[int, list[Settlement]] = defaultdict(list)
        self.runs: dict[int, Run] = {}
        self.running: defaultdict[str, list[Run]] = defaultdict(list)
        self.members: dict[str, Member] = {}
        self.changed: set[str] = set()
        """Ids that were sent again with Update: their counters may have started anew."""
        self.cancelled: set[str] = set()
        self.jumped_at = -math.inf
        self.policy = Policy()
        """That of the queue."""
        self.policies: dict[str, Policy] = {}
        """Those that jobs are sent with, by id."""
        self.policy_of: dict[Life, Policy] = {}
        self.gathered: dict[str, tuple[int, int]] = {}
        self.faults = 0
        """Calls that went wrong."""
        self.wrong: list[str] = []
        self.trace: list[tuple[Any, ...]] = []
        self.names: dict[str, str] = {}

    def blame(self, what: str) -> None:
        """This must not be."""
        self.wrong.append(what)
        self.trace.append(("WRONG", what))

    def name(self, id: str) -> str:
        """An id as the trace shows it: those that were made by chance get a number."""
        if len(id) != 36:
            return id
        return self.names.setdefault(id, f"fresh-{len(self.names)}")


class WatchedStore(MemoryBroker):
    """The store of a simulation: what it has done is in the books."""

    def __init__(self, clock: SimulatedClock, books: Books) -> None:
        super().__init__(clock=clock)
        self._books = books
        self._clock = clock

    async def lease(self, queue: str, **options: Any) -> Sequence[Lease]:
        leases = await super().lease(queue, **options)
        q, books = self._memory.queue(queue), self._books
        for lease in leases:
            message, token = q.live[lease.receipt.id], lease.receipt.token
            life = message.id, message.incarnation
            books.leases[token] = Leased(
                message.id,
                life,
                token,
                options["holder"],
                self._clock.now() - self._clock.offset,
                message.visible_at,
                lease.counters,
                took_over=books.current.get(life),
            )
            books.current[life] = token
            books.trace.append(("leased", books.name(message.id), token))
        return leases

    async def extend(
        self, queue: str, receipts: Sequence[Receipt], **options: Any
    ) -> AbstractSet[Receipt]:
        lost = await super().extend(queue, receipts, **options)
        now = self._clock.now()
        for receipt in receipts:
            if receipt not in lost:
                lease = self._books.leases[receipt.token]
                if lease.until < now:
                    lease.lapsed = min(lease.lapsed, lease.until)
                lease.until = now + options["duration"]
        return lost

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> AbstractSet[Receipt]:
        lost = await super().settle(queue, settlements)
        books = self._books
        for settlement in settlements:
            receipt, what = settlement.receipt, type(settlement.disposition).__name__
            applied = receipt not in lost
            shown = what if applied else "lost"
            books.trace.append(("settled", books.name(receipt.id), receipt.token, shown))
            if applied:
                books.settled[receipt.token].append(settlement)
                books.current.pop(books.leases[receipt.token].life, None)
        return lost

    def _send(self, q: Queue, draft: Draft) -> Sent:
        sent = super()._send(q, draft)
        if sent is Sent.CREATED:
            self._create(q, draft.id)
        elif sent is not Sent.KEPT:
            self._books.changed.add(draft.id)
        return sent

    def _create(self, q: Queue, id: str) -> None:
        life, books = (id, q.live[id].incarnation), self._books
        books.created[life] = self._clock.now()
        books.policy_of[life] = books.policies.get(id, books.policy)
        self._books.trace.append(("created", self._books.name(id)))

    def _dispose(
        self, q: Queue, message: Message, disposition: Disposition, end: Report, keep: float = 0.0
    ) -> int:
        terminal = isinstance(disposition, Delete | Archive)
        successor, token = message.successor, message.token
        rings = super()._dispose(q, message, disposition, end, keep)
        if terminal:
            life = message.id, message.incarnation
            self._books.ended[life].append(disposition)
            self._books.current.pop(life, None)
            if token is not None:
                self._books.leases[token].cancelled = end.note.reason == "cancelled"
            if successor is not None:
                self._create(q, message.id)
        return rings

    def archived(self) -> Mapping[Life, Any]:
        return self._memory.queue(QUEUE).archive

    def live(self) -> Mapping[str, Message]:
        return self._memory.queue(QUEUE).live
