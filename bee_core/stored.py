"""What a store shows to operators and tools: messages, their past, counts, who works, what ails it.

Plain and frozen, like what is in `message.py`. Times are seconds since the epoch, by the store's
clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from bee_core.message import Counters, Note, Reason


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of a message, from its beginning to its end. Times are the store's."""

    token: int
    holder: str
    leased_at: float
    ended_at: float
    reason: Reason
    """How it ended; "stalled" if somebody took the message over, "ruled" if there was no note."""
    summary: str = ""
    due_at: float | None = None
    """When the message was to be ready again; None if that was the end of it."""
    remark: str | None = None
    """What was noticed while it lasted."""


HISTORY = 10
"""As many episodes of a message are kept, the last ones."""


class State(enum.Enum):
    """Where a message is. A live message is in exactly one of the first four."""

    READY = "ready"
    """Due, and nobody holds it (or its holder's lease has run out)."""
    DELAYED = "delayed"
    """Not due yet."""
    LEASED = "leased"
    """Somebody holds it."""
    BLOCKED = "blocked"
    """Waits as the successor of a leased message with the same id."""
    ARCHIVED = "archived"
    """Out of the queue, kept for people."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A message as an operator sees it. Times are seconds since the epoch, by the store's clock."""

    id: str
    incarnation: int
    """Grows with every fresh creation; tells two lives of one id apart."""
    state: State
    body: bytes
    headers: Mapping[str, str]
    priority: int
    counters: Counters
    sent_at: float
    due_at: float
    holder: str | None = None
    """Who holds it, or held it last."""
    leased_until: float | None = None
    note: Note | None = None
    """The last note: why it was repeated, or why it is archived."""
    archived_at: float | None = None
    key: str | None = None
    awaits: int = 0
    """How many are to report to it; `due_at` says whether it still waits for them."""
    reports_to: str | None = None
    progress: str | None = None
    """What its handler last said of how far it is."""
    leased_at: float | None = None
    """When the lease began that it is held by, or that has run out and was not taken over yet."""
    remark: str | None = None
    """What was noticed since then."""
    history: Sequence[Episode] = ()
    """Its former leases, oldest first."""
    token: int | None = None
    """That of the lease that it is held by, or that has run out and was not taken over yet."""


class Page(msgspec.Struct, frozen=True):
    """Some of the messages, and where to go on (`after`), or None at the end."""

    items: Sequence[Stored]
    after: str | None


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """One consistent look at a queue."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    blocked: int = 0
    archived: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By reason; what was archived without a note counts as "ruled"."""
    oldest_due: float | None = None
    """Seconds for which the longest-due ready message has been waiting; None if none is ready."""
    paused: bool = False
    created: int = 0
    """Messages that have come into being here so far; only grows, unless the queue is dropped."""
    token: int = 0
    """No token that was given here so far is greater."""

    @property
    def live(self) -> int:
        """Messages that are not archived."""
        return self.ready + self.delayed + self.leased + self.blocked

    @property
    def ended(self) -> int:
        """Messages that have come to an end here so far, whichever."""
        return self.created - self.ready - self.delayed - self.leased


class Holder(msgspec.Struct, frozen=True):
    """Somebody who works on a queue: who holds leases of it, or has announced itself."""

    name: str
    leases: int = 0
    leased_until: float | None = None
    """When the first of them runs out."""
    since: float | None = None
    """When it announced itself first; None if it has not, or not in time."""
    until: float | None = None
    """How long its announcement holds."""
    about: str = ""
    """What it says of itself."""


class Finding(msgspec.Struct, frozen=True):
    """Something about a store that an operator should see to. The text says what to do."""

    topic: str
    text: str
