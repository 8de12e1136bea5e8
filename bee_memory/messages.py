"""A message as the memory broker keeps it, and a draft that has arrived and waits to become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from bee_core.disposition import Disposition, Reschedule
from bee_core.message import ZERO, Counters, Draft, Lease, Note, Receipt, Report, Update
from bee_core.stored import HISTORY, Episode, State, Stored

_RULED = Note("ruled")

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
            key=self.draft.key,
            awaits=self.draft.awaits,
            reports_to=self.draft.reports_to,
        )


def adopted(stored: Stored, number: int) -> Message:
    """The message that another store has shown so, with a number of ours."""
    return Message(
        id=stored.id,
        incarnation=number,
        sequence=number,
        body=stored.body,
        headers=MappingProxyType(dict(stored.headers)),
        priority=stored.priority,
        sent_at=stored.sent_at,
        due=stored.due_at,
        visible_at=stored.due_at,
        counters=stored.counters,
        holder=stored.holder,
        note=stored.note,
        key=stored.key,
        awaits=stored.awaits,
        reports_to=stored.reports_to,
        progress=stored.progress,
        history=tuple(stored.history),
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
    key: str | None = None
    awaits: int = 0
    reports_to: str | None = None
    progress: str | None = None
    leased_at: float = 0.0
    remark: str | None = None
    history: tuple[Episode, ...] = ()
    parked: bool = False
    """Whether it is due, and was passed over: it waits for its key."""

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
            key=self.key,
            awaits=self.awaits,
            reports_to=self.reports_to,
            progress=self.progress,
            leased_at=None if self.token is None or archived_at is not None else self.leased_at,
            remark=self.remark,
            history=self.history,
            token=None if archived_at is not None else self.token,
        )

    def lease(self, now: float) -> Lease:
        """What its holder gets, now that it has a token."""
        assert self.token is not None
        return Lease(
            Receipt(self.id, self.token),
            self.body,
            self.headers,
            self.counters,
            self.sent_at,
            now,
            self.key,
            self.reports_to,
        )

    def remember(self, note: Note | None, way: Disposition, now: float, summary: str = "") -> None:
        """Its lease ends so: that is an episode of its history."""
        if self.token is None or self.holder is None:
            return
        due: float | None = None
        if isinstance(way, Reschedule):
            due = self.due if way.front else now + way.delay
        episode = Episode(
            token=self.token,
            holder=self.holder,
            leased_at=self.leased_at,
            ended_at=now,
            reason=(note or _RULED).reason,
            summary=summary,
            due_at=due,
            remark=self.remark,
        )
        self.history = (*self.history, episode)[-HISTORY:]
        self.remark = None

    def end(self, result: bytes = b"") -> Report:
        """How it ends."""
        return Report(self.id, self.note or _RULED, result)
