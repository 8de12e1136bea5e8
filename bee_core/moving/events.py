"""What a move tells of itself, step by step, and of each queue at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from bee_core.moving.sides import Where

Why: TypeAlias = Literal["running", "conflict", "refused", "group", "new"]
"""Why a message stays: it runs; another one of its id is live at the destination; the destination
cannot hold it; its group stays; it came or changed too late."""


class Found(msgspec.Struct, frozen=True, kw_only=True, tag="found", tag_field="event"):
    """What a queue holds at the source, before anything is done."""

    queue: str
    ready: int
    delayed: int
    leased: int
    blocked: int
    archived: Mapping[str, int]
    paused: bool

    @property
    def total(self) -> int:
        """Messages. A successor becomes part of the message that it waits for."""
        return self.ready + self.delayed + self.leased + sum(self.archived.values())


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", tag_field="event"):
    """From now on the queue is paused at the source."""

    queue: str
    found: int


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag="waiting", tag_field="event"):
    """The source is paused, and so many jobs still run there."""

    queue: str
    leased: int
    seconds: float
    """How long to wait for them at most."""


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag="progress", tag_field="event"):
    """So many are at the destination, and no longer at the source."""

    queue: str
    moved: int
    found: int


class Setback(msgspec.Struct, frozen=True, kw_only=True, tag="setback", tag_field="event"):
    """A store is in trouble. It is asked again for a while."""

    queue: str
    where: Where
    error: str


class Moved(msgspec.Struct, frozen=True, kw_only=True, tag="moved", tag_field="event"):
    """What has become of a queue."""

    queue: str
    found: int
    """Messages at the source, once it was paused and who ran had had time to end."""
    moved: int
    """At the destination, and no longer at the source."""
    already: int
    """Of these, those that were at the destination before: an earlier run was interrupted."""
    gone: int
    """Of these, those that somebody ended at the source as they were copied."""
    left: Mapping[Why, int]
    """What stays at the source, by reason."""
    conflicts: Sequence[str]
    """Ids of some of those that stay because another one is at the destination."""
    refused: Sequence[str]
    """Ids of some of those that the destination cannot hold."""
    refusal: str
    """Why it cannot."""
    doubled: Sequence[str]
    """Ids of some that changed at the source and had begun at the destination: both may run."""
    was_paused: bool
    """Whether the source was paused before. Then it stays so."""
    paused: bool
    """Whether the source is paused now."""
    destination_paused: bool

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left at the source."""
        return not self.left


Event: TypeAlias = Found | Begun | Waiting | Progress | Setback | Moved
