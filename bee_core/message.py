"""The data that passes between a broker and everything above it. Bytes, no types; plain, frozen.

No policy lives here: what a field means to a store is in `broker.py`, what it
means to a job in `queue.py` and `worker.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec

from bee_core.disposition import Disposition
from bee_core.duration import Duration, seconds
from bee_core.errors import InvalidOption

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
PRIORITIES = range(-9, 10)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The proof that you hold a message. Plain data: log it, batch it, send it along.

    `token` comes from a counter of the store that only grows and is never reused,
    so it also serves as a fencing token in other systems.
    """

    id: str
    token: int


class Counters(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What has happened to a message so far, each kind apart from the others."""

    deliveries: int = 0
    """Times it was leased."""
    errors: int = 0
    """Runs that raised."""
    timeouts: int = 0
    """Runs that were stopped at their timeout."""
    stalls: int = 0
    """Leases that ran out, and processes that died under it."""
    releases: int = 0
    """Times it was given back unfinished, at no cost: shutdown, snooze."""
    unknowns: int = 0
    """Times it met a worker that does not know its kind."""

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            deliveries=self.deliveries + other.deliveries,
            errors=self.errors + other.errors,
            timeouts=self.timeouts + other.timeouts,
            stalls=self.stalls + other.stalls,
            releases=self.releases + other.releases,
            unknowns=self.unknowns + other.unknowns,
        )


ZERO = Counters()


def attempt_number(counters: Counters) -> int:
    """Which run this is, not counting the ones that cost nothing."""
    return max(1, counters.deliveries - counters.releases - counters.unknowns)


class Keep(msgspec.Struct, frozen=True, tag="keep"):
    """If the id is live, change nothing."""


class Reject(msgspec.Struct, frozen=True, tag="reject"):
    """If the id is live, store nothing of the whole batch and raise IdTaken."""


RunAt: TypeAlias = Literal["always", "never", "if_later", "if_earlier"]


class Update(msgspec.Struct, frozen=True, kw_only=True, tag="update"):
    """If the id is live and waiting, change it field by field; if it is leased, follow it.

    payload       replace the body
    run_at        replace the time it is due: always, never, or only if that makes it
                  later or earlier; a message whose time is replaced goes to the back
    policy        replace headers (the policy travels there), priority and key
    reset_counts  set the counters to zero; left out, it does what `payload` does
    """

    payload: bool = True
    run_at: RunAt = "always"
    policy: bool = True
    reset_counts: bool | None = None

    def __post_init__(self) -> None:
        if self.run_at not in ("always", "never", "if_later", "if_earlier"):
            raise InvalidOption(
                f"Update run_at is one of always, never, if_later, if_earlier; not {self.run_at!r}"
            )

    @property
    def resets(self) -> bool:
        """Whether the counters start again."""
        return self.payload if self.reset_counts is None else self.reset_counts


IfTaken: TypeAlias = Keep | Reject | Update
KEEP = Keep()


class Draft(msgspec.Struct, frozen=True, gc=False):
    """What is handed to `send`. The sender picks the id, so sending it again is harmless."""

    id: str
    body: bytes
    delay: float = 0.0
    priority: int = 0
    headers: Mapping[str, str] = NO_HEADERS
    if_taken: IfTaken = KEEP
    key: str | None = None
    """Of the messages with one key only so many are leased at once: see `Throttle`."""
    awaits: int = 0
    """It is due, before its delay is over, when that many others have reported to it."""
    reports_to: str | None = None
    """The id of the message that is told how this one ends."""


class Rate(msgspec.Struct, frozen=True):
    """At most `times` in any stretch of `per` seconds."""

    times: int
    per: Duration = 1.0

    def __post_init__(self) -> None:
        if type(self.times) is not int or self.times < 1:
            raise InvalidOption(f"Rate times must be a whole number from 1, not {self.times!r}")
        msgspec.structs.force_setattr(self, "per", seconds(self.per, "Rate per", least=0.001))

    @property
    def seconds(self) -> float:
        """`per` in seconds."""
        return seconds(self.per, "Rate per")


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for when it leases: how much of a queue at once, and how fast.

    per_key   messages of one key that may be leased at once; None: any number
    rate      deliveries of the whole queue
    key_rate  deliveries of each key
    """

    per_key: int | None = 1
    rate: Rate | None = None
    key_rate: Rate | None = None

    def __post_init__(self) -> None:
        if self.per_key is not None and (type(self.per_key) is not int or self.per_key < 1):
            raise InvalidOption(
                f"Throttle per_key must be a whole number from 1, or None; not {self.per_key!r}"
            )
        for name, rate in (("rate", self.rate), ("key_rate", self.key_rate)):
            if rate is not None and not isinstance(rate, Rate):
                raise InvalidOption(f"Throttle {name} takes a Rate, not {rate!r}")


THROTTLE = Throttle()


class Sent(enum.Enum):
    """What a send did with one draft."""

    CREATED = "created"
    """A new message."""
    KEPT = "kept"
    """The id was live and was left as it is."""
    UPDATED = "updated"
    """The id was waiting and was changed."""
    BLOCKED = "blocked"
    """The id is leased; the draft waits as its one successor."""


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """What became of a send: the id, and whether it was created, kept, updated or blocked."""

    id: str
    sent: Sent


class Lease(msgspec.Struct, frozen=True, gc=False):
    """What `lease` returns. `counters` include this delivery, and the stall if it follows one."""

    receipt: Receipt
    body: bytes
    headers: Mapping[str, str] = NO_HEADERS
    counters: Counters = ZERO
    sent_at: float = 0.0
    """When it was sent, in seconds since the epoch by the store's clock."""
    leased_at: float = 0.0
    """When it was leased, by the same clock."""
    key: str | None = None
    reports_to: str | None = None


Reason: TypeAlias = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "stalled",
    "interrupted",
    "malformed",
    "unknown",
    "ruled",
    "cancelled",
]


class Note(msgspec.Struct, frozen=True, gc=False):
    """Why a lease ended as it did; kept with the message. `detail` is bounded by its writer."""

    reason: Reason
    detail: str = ""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """How a lease ends.

    `counters` is what this lease adds to the message's counters, `note` says why,
    and `then` are drafts for the same queue that are sent in the same atomic step.
    `result` is what came of it, for whom it reports to, and for `results`, which
    answers for `keep` seconds. `summary` is the note in a line, for the history.
    """

    receipt: Receipt
    disposition: Disposition
    note: Note | None = None
    counters: Counters = ZERO
    then: Sequence[Draft] = ()
    result: bytes = b""
    keep: float = 0.0
    summary: str = ""


class Report(msgspec.Struct, frozen=True, gc=False):
    """How a message ended: why, and what came of it."""

    id: str
    note: Note
    result: bytes = b""


NO_REPORTS: Mapping[str, Sequence[Report]] = MappingProxyType({})
