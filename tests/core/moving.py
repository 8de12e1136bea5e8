"""A queue with messages in every state there is, and what can be seen of them from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

import bee_core as bee
from bee_core.broker import Store
from bee_core.codec import KIND_HEADER
from bee_core.message import Draft, Lease, Note, Reason, Report, Settlement
from bee_core.schedule import Plan
from bee_core.stored import State, Stored
from bee_core.ticks import SCHEDULE, message_id

T = TypeVar("T")

DAY = 86_400.0
SHORT = 0.2
"""A lease that has run out before anybody looks."""
AWAITED = 3
"""Children of each group: the first has ended, the others wait."""
REASONS: tuple[Reason, ...] = ("succeeded", "failed", "timed_out", "malformed", "cancelled")
SCHEDULED = message_id("nightly")
PAGE = 500


@dataclass
class Filled:
    """What was put into a queue that does not stay as it is when it is moved."""

    stalled: list[str] = field(default_factory=list)
    """Held by leases that have run out."""
    succeeded: list[str] = field(default_factory=list)
    """Of these, those that have a successor."""
    groups: list[str] = field(default_factory=list)
    """Those that await the rest of their children."""


async def fill(
    store: Store, queue: str, number: int, pass_time: Callable[[float], Awaitable[None]]
) -> Filled:
    """Put about so many messages into a queue, some of each kind."""
    share = max(2, number // 20)
    filled = Filled()
    ended = [
        Settlement(
            lease.receipt,
            bee.Archive(),
            Note(REASONS[n % len(REASONS)], f"line one\nnumber {n}: grüße"),
            counters=bee.Counters(errors=1),
            summary=f"it is over: {n}",
        )
        for n, lease in enumerate(await _leased(store, queue, _drafts("archived", share * 3)))
    ]
    await _settle(store, queue, ended)
    again = [
        Settlement(
            lease.receipt,
            bee.Reschedule(DAY + n % 7),
            Note("failed", f"Traceback ... {n}"),
            counters=bee.Counters(errors=1, timeouts=n % 2),
            summary=f"OSError: {n}",
        )
        for n, lease in enumerate(await _leased(store, queue, _drafts("repeated", share * 2)))
    ]
    await _settle(store, queue, again)
    await _begin_groups(store, queue, share // 2, filled)
    await _let_leases_run_out(store, queue, share, filled)
    await pass_time(2 * SHORT)
    await _send_waiting(store, queue, share)
    return filled


async def _begin_groups(store: Store, queue: str, number: int, filled: Filled) -> None:
    filled.groups = [f"group-{n}" for n in range(max(1, number))]
    for page in _paged(filled.groups):
        await store.send(queue, [Draft(id, b"gather", DAY, awaits=AWAITED) for id in page])
    first = [Draft(f"{id}:0", b"child", reports_to=id) for id in filled.groups]
    ends = [
        Settlement(lease.receipt, bee.Delete(), Note("succeeded"), result=b"[0]")
        for lease in await _leased(store, queue, first)
    ]
    await _settle(store, queue, ends)


async def _let_leases_run_out(store: Store, queue: str, number: int, filled: Filled) -> None:
    """A third of them has a successor; and keys that they hold keep others waiting."""
    drafts = [Draft(f"stalled-{n}", b"first", key=f"key-{n}") for n in range(number)]
    for page in _paged(drafts):
        await store.send(queue, page)
    await store.send(queue, [Draft(f"parked-{n}", b"p", key=f"key-{n}") for n in range(2)])
    held: list[Lease] = []
    while len(held) < number:
        held += await store.lease(queue, limit=PAGE, duration=60, holder="dead:1")
    filled.stalled = [lease.receipt.id for lease in held]
    filled.succeeded = filled.stalled[::3]
    for some in _paged(filled.succeeded):
        await store.send(queue, [Draft(id, b"second", if_taken=bee.Update()) for id in some])
    for few in _paged(held):
        await store.extend(queue, [lease.receipt for lease in few], duration=SHORT)


async def _send_waiting(store: Store, queue: str, share: int) -> None:
    plan = msgspec.json.encode(Plan("every 60", 2_000_000_000.0, 1_000_000_000.0))
    headers = {KIND_HEADER: SCHEDULE}
    await store.send(queue, [Draft(SCHEDULED, plan, DAY, 9, headers)])
    waiting = [
        *(Draft(f"{id}:1", b"child", reports_to=id) for id in _group_ids(share)),
        *(Draft(f"{id}:2", b"child", reports_to=id) for id in _group_ids(share)),
        *(Draft(f"keyed-{n}", b"k%d" % n, key=f"k{n % 50}") for n in range(share)),
        *(Draft(f"later-{n}", b"d%d" % n, DAY + n % 50, n % 3) for n in range(share * 3)),
        *_drafts("ready", share * 9),
    ]
    for page in _paged(waiting):
        await store.send(queue, page)


def _group_ids(share: int) -> list[str]:
    return [f"group-{n}" for n in range(max(1, share // 2))]


def _drafts(kind: str, number: int) -> list[Draft]:
    return [
        Draft(
            f"{kind}-{n}",
            b"%s %d \x00\xff" % (kind.encode(), n) * (1 + n % 5),
            priority=n % 7 - 3,
            headers={"number": str(n), "süß": "ja"} if n % 2 else {},
        )
        for n in range(number)
    ]


async def _leased(store: Store, queue: str, drafts: Sequence[Draft]) -> list[Lease]:
    for page in _paged(drafts):
        await store.send(queue, page)
    held: list[Lease] = []
    while len(held) < len(drafts):
        held += await store.lease(queue, limit=PAGE, duration=3600, holder="ann:1")
    return held


async def _settle(store: Store, queue: str, ends: Sequence[Settlement]) -> None:
    """Some at one moment, so that their order is not that of time alone."""
    for n in range(0, len(ends), 20):
        await store.settle(queue, ends[n : n + 20])


def _paged(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[n : n + PAGE] for n in range(0, len(items), PAGE))


async def scan_all(store: Store, queue: str, state: State) -> list[Stored]:
    """Every message in a state, in order."""
    found: list[Stored] = []
    after: str | None = None
    while True:
        page = await store.scan(queue, state, after=after, limit=PAGE)
        found += page.items
        if page.after is None:
            return found
        after = page.after


@dataclass
class Seen:
    """All that can be seen of a queue."""

    ready: list[Stored]
    delayed: list[Stored]
    archived: list[Stored]
    reports: dict[str, list[Report]]
    token: int

    @property
    def counts(self) -> dict[str, int]:
        """By state."""
        names = ("ready", "delayed", "archived")
        return {name: len(getattr(self, name)) for name in names}


async def look(store: Store, queue: str) -> Seen:
    """Look at all of a queue."""
    ready, delayed, archived = [
        await scan_all(store, queue, state)
        for state in (State.READY, State.DELAYED, State.ARCHIVED)
    ]
    reports = {
        one.id: list(await store.reports(queue, one.id)) for one in ready + delayed if one.awaits
    }
    return Seen(ready, delayed, archived, reports, (await store.stats(queue)).token)


def differences(before: Seen, after: Seen, filled: Filled) -> list[str]:
    """In what a queue that was moved is not what it was. The first few of many."""
    found = [
        f"{name}: {before.counts[name]} before, {after.counts[name]} after"
        for name in before.counts
        if before.counts[name] != after.counts[name]
    ]
    if before.reports != after.reports:
        found.append("reports differ")
    stalled = set(filled.stalled)
    for name in before.counts:
        old, new = (
            [_plain(one) for one in in_order(getattr(side, name)) if one.id not in stalled]
            for side in (before, after)
        )
        pairs = zip(old, new, strict=False)
        found += [f"{name}: {one}\n  is now {other}" for one, other in pairs if one != other]
    now = {one.id: one for one in after.ready + after.delayed}
    found += [
        f"{id}: {wrong}" for id in filled.stalled if (wrong := _wrong(now.get(id), id, filled))
    ]
    return found[:10]


def in_order(messages: list[Stored]) -> list[Stored]:
    """In the order of delivery; what was passed over for its key is shown behind the others.

    Of those due at one moment, what awaits others has gone ahead.
    """
    if messages and messages[0].state is State.ARCHIVED:
        return messages
    return sorted(messages, key=lambda one: (-one.priority, one.due_at, not one.awaits))


def _wrong(one: Stored | None, id: str, filled: Filled) -> str | None:
    """What is wrong with one whose lease had run out."""
    if one is None:
        return "is not there"
    body, stalls = (b"second", 0) if id in filled.succeeded else (b"first", 1)
    reasons = [episode.reason for episode in one.history]
    if (body, stalls, ["stalled"], None) == (one.body, one.counters.stalls, reasons, one.token):
        return None
    return f"is now {one}"


def _plain(one: Stored) -> tuple[Any, ...]:
    """A message without what a store gives it anew, and with times as both stores can tell them."""
    return (
        one.id,
        one.state,
        one.body,
        dict(one.headers),
        one.priority,
        one.counters,
        _micro(one.sent_at),
        _micro(one.due_at),
        one.holder,
        one.note,
        _micro(one.archived_at),
        one.key,
        one.awaits,
        one.reports_to,
        [
            (e.token, e.holder, _micro(e.leased_at), _micro(e.ended_at), e.reason, e.summary)
            for e in one.history
        ],
    )


def _micro(time: float | None) -> int | None:
    return None if time is None else round(time * 1_000_000)
