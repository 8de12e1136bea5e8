"""Why a job is not running: one look at the store, and a typed answer.

`explain` asks an Inspector a few questions and says what it found as one of a closed family of
reasons, with the job's past beside it. It changes nothing, and needs no job classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeAlias, assert_never

import msgspec

from bee_core.broker import Store
from bee_core.codec import kind_of
from bee_core.message import Note, Reason, Report
from bee_core.presence import presence_of
from bee_core.stored import Episode, Holder, State, Stored

_PAGE = 500
_LEASES = 10_000
"""As many leases are looked through for those who hold a key."""


class Running(msgspec.Struct, frozen=True):
    """Somebody has it, and renews its lease."""

    holder: str
    since: float
    until: float
    progress: str | None = None
    remark: str | None = None


class Stalled(msgspec.Struct, frozen=True):
    """Who had it let its lease run out, so it is gone or cut off. The next worker takes it over."""

    holder: str
    since: float


class NotDue(msgspec.Struct, frozen=True):
    """It is delayed, or to be repeated later. `note` is why, if it ran before."""

    until: float
    note: Note | None = None


class Awaiting(msgspec.Struct, frozen=True):
    """It gathers for a group, of which not all have ended."""

    reports: int
    heard: int
    until: float
    """When it is due without them."""


class Paused(msgspec.Struct, frozen=True):
    """The queue is paused."""


class KeyHeld(msgspec.Struct, frozen=True):
    """Others of its key run, and only so many may at once."""

    key: str
    by: tuple[str, ...]
    """Their ids."""


class NoWorker(msgspec.Struct, frozen=True):
    """Nobody works on this queue."""


class UnknownKind(msgspec.Struct, frozen=True):
    """No worker that is there knows this kind of job."""

    kind: str
    until: float | None = None
    """When it will be offered again, if one has sent it back."""


class InLine(msgspec.Struct, frozen=True):
    """It is ready, workers are there, and it will have its turn; a rate may hold it back."""

    since: float
    workers: int


class Poisoned(msgspec.Struct, frozen=True):
    """It was put away because its workers died, or went silent, while they had it."""

    stalls: int
    at: float


class Archived(msgspec.Struct, frozen=True):
    """It is over, and kept for people."""

    note: Note | None
    at: float


class Ended(msgspec.Struct, frozen=True):
    """It is over, and what came of it is still kept."""

    report: Report


class NotFound(msgspec.Struct, frozen=True):
    """The store knows nothing of it: it is done and was deleted, or was never sent here."""


Why: TypeAlias = (
    Running
    | Stalled
    | NotDue
    | Awaiting
    | Paused
    | KeyHeld
    | NoWorker
    | UnknownKind
    | InLine
    | Poisoned
    | Archived
    | Ended
    | NotFound
)


class Explanation(msgspec.Struct, frozen=True):
    """What is known of a job. `str()` of it is for people."""

    queue: str
    id: str
    why: Why
    stored: Stored | None = None

    @property
    def history(self) -> Sequence[Episode]:
        """Its former leases, oldest first; the last ones, if there were many."""
        return () if self.stored is None else self.stored.history

    def __str__(self) -> str:
        return "\n".join([f"{self.id} in {self.queue}: {sentence(self.why)}", *past(self.stored)])


async def explain(broker: Store, queue: str, id: str) -> Explanation:
    """Why that job is not running, or who runs it, and what has happened to it."""
    stored = await broker.get(queue, id)
    return Explanation(queue, id, await _why(broker, queue, id, stored), stored)


async def _why(broker: Store, queue: str, id: str, stored: Stored | None) -> Why:
    if stored is None:
        end = (await broker.results(queue, [id])).get(id)
        return NotFound() if end is None else Ended(end)
    match stored.state:
        case State.ARCHIVED:
            at = stored.archived_at or 0.0
            if stored.note is not None and stored.note.reason == "stalled":
                return Poisoned(stored.counters.stalls, at)
            return Archived(stored.note, at)
        case State.LEASED:
            since, until = stored.leased_at or 0.0, stored.leased_until or 0.0
            return Running(stored.holder or "?", since, until, stored.progress, stored.remark)
        case State.DELAYED:
            return await _why_delayed(broker, queue, stored)
        case State.READY | State.BLOCKED:
            return await _why_ready(broker, queue, stored)
        case _:
            assert_never(stored.state)


async def _why_delayed(broker: Store, queue: str, stored: Stored) -> Why:
    if stored.awaits and stored.note is None:  # if it has one, it ran, and is to run again
        heard = len(await broker.reports(queue, stored.id, limit=stored.awaits))
        if heard < stored.awaits:
            return Awaiting(stored.awaits, heard, stored.due_at)
    if stored.note is not None and stored.note.reason == "unknown":
        return UnknownKind(kind_of(stored.headers, stored.body) or "?", stored.due_at)
    return NotDue(stored.due_at, stored.note)


async def _why_ready(broker: Store, queue: str, stored: Stored) -> Why:
    if (await broker.stats(queue)).paused:
        return Paused()
    workers = await broker.workers(queue)
    if not workers:
        return NoWorker()
    kind = kind_of(stored.headers, stored.body)
    if kind is not None and not any(_knows(worker, kind) for worker in workers):
        return UnknownKind(kind)
    if stored.leased_at is not None:
        return Stalled(stored.holder or "?", stored.leased_at)
    if stored.key is not None:
        by = await _who_holds(broker, queue, stored.key)
        if by:
            return KeyHeld(stored.key, by)
    return InLine(stored.due_at, len(workers))


def _knows(worker: Holder, kind: str) -> bool:
    presence = presence_of(worker)
    return presence is None or presence.kinds is None or kind in presence.kinds


async def _who_holds(broker: Store, queue: str, key: str) -> tuple[str, ...]:
    """The ids of those that hold a key."""
    after: str | None = None
    found: list[str] = []
    for _ in range(_LEASES // _PAGE):
        page = await broker.scan(queue, State.LEASED, after=after, limit=_PAGE)
        found += [one.id for one in page.items if one.key == key]
        if (after := page.after) is None:
            break
    return tuple(found)


def sentence(why: Why) -> str:
    """The reason in words."""
    match why:
        case Running(holder=holder, since=since, until=until, progress=progress):
            how = "" if progress is None else f", {progress}"
            return f"it runs on {holder} since {when(since)} (lease until {when(until)}){how}"
        case Stalled(holder=holder, since=since):
            return (
                f"{holder} had it since {when(since)} and is silent; the next worker takes it over"
            )
        case NotDue(until=until, note=None):
            return f"it is not due before {when(until)}"
        case NotDue(until=until, note=note):
            return f"it has {_reason(note)}, and is not due before {when(until)}"
        case Awaiting(reports=reports, heard=heard, until=until):
            known = f"{heard} of {reports} have ended"
            return f"it waits for its group: {known}; at {when(until)} it runs anyway"
        case Paused():
            return "the queue is paused"
        case KeyHeld(key=key, by=by):
            others = ", ".join(by[:5]) + (f" and {len(by) - 5} more" if len(by) > 5 else "")
            return f"its key {key!r} is held by {others}"
        case NoWorker():
            return "nobody works on this queue"
        case UnknownKind(kind=kind, until=float(until)):
            return f"a worker did not know the kind {kind!r}; it is offered again at {when(until)}"
        case UnknownKind(kind=kind):
            return f"no worker that is there knows the kind {kind!r}"
        case InLine(since=since, workers=workers):
            return f"it is ready since {when(since)} and waits for its turn; workers: {workers}"
        case Poisoned(stalls=stalls, at=at):
            return (
                f"it was archived at {when(at)} as poisoned: {stalls} workers died "
                "or went silent while they had it"
            )
        case Archived(note=note, at=at):
            return f"it was archived at {when(at)}: it has {_reason(note)}"
        case Ended(report=report):
            return f"it is over: it has {_reason(report.note)}"
        case NotFound():
            return "the store knows nothing of it: it is done and deleted, or was never sent here"
        case _:
            assert_never(why)


def past(stored: Stored | None) -> Iterator[str]:
    """A line for each thing that has happened to it, the first one first."""
    if stored is None:
        return
    before = [
        one for one in stored.history if one.leased_at < stored.sent_at
    ]  # then it was retried
    for one in before:
        yield from _leased(one)
    yield f"  {when(stored.sent_at)}  {'sent again' if before else 'sent'}"
    for one in stored.history[len(before) :]:
        yield from _leased(one)
    if stored.leased_at is not None:
        yield f"  {when(stored.leased_at)}  leased by {stored.holder}"
        yield from _indented(stored.remark)
    if stored.archived_at is not None:
        yield f"  {when(stored.archived_at)}  archived"


def _leased(one: Episode) -> Iterator[str]:
    end = one.summary or one.reason.replace("_", " ")
    took = one.ended_at - one.leased_at
    yield f"  {when(one.leased_at)}  leased by {one.holder}, for {took:.1f} s: {end}{_again(one)}"
    yield from _indented(one.remark)


def _again(one: Episode) -> str:
    if one.due_at is None:
        return ""
    at_once = one.due_at <= one.ended_at  # it keeps the place it had
    return "; due again at once" if at_once else f"; due again at {when(one.due_at)}"


def _indented(remark: str | None) -> Iterator[str]:
    for line in (remark or "").splitlines():
        yield f"      {line}"


_HAS: dict[Reason, str] = {
    "failed": "failed",
    "timed_out": "timed out",
    "stalled": "stalled",
    "interrupted": "been interrupted",
    "malformed": "been malformed",
    "unknown": "been of a kind that its workers do not know",
    "ruled": "been decided on by its handler",
    "cancelled": "been cancelled",
    "succeeded": "succeeded",
}


def _reason(note: Note | None) -> str:
    return _HAS["ruled" if note is None else note.reason]


def when(at: float) -> str:
    """A time as people here read it, with the offset of their zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(" ", "seconds")
