"""Messages as another store could have shown them, for the tests of `adopt` and `expel`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from bee_core.message import ZERO, Counters, Note, Report
from bee_core.stored import Episode, State, Stored
from bee_core.testing.conformance.harness import Harness
from bee_core.testing.conformance.scan import pages
from bee_core.testing.conformance.steps import LONG, draft

DIARY = tuple(
    Episode(
        token=2**40 + n,
        holder=f"ann 🐝:{n}",
        leased_at=1_000_000.25 + n,
        ended_at=1_000_000.5 + n,
        reason="failed" if n % 2 else "stalled",
        summary=f'"no" {n} 日本' if n % 2 else "",
        due_at=1_000_001.125 + n if n % 3 else None,
        remark="at line 1\n\tat line 2" if n % 4 else None,
    )
    for n in range(10)
)
"""As long as a history gets."""


async def moment(h: Harness) -> float:
    """What time it is in the store, in whole seconds: every store can hold that exactly."""
    await h.broker.send(h.other_queue, [draft(h, "clock")])
    stored = await h.broker.get(h.other_queue, "clock")
    assert stored is not None
    await h.broker.drop(h.other_queue)
    return float(math.floor(stored.sent_at))


async def foreign(h: Harness, id: str, **fields: Any) -> Stored:
    """A message that has been ready for a while, but for these fields."""
    now = await moment(h)
    plain = Stored(
        id=id,
        incarnation=7,
        state=State.READY,
        body=b"body",
        headers={},
        priority=0,
        counters=ZERO,
        sent_at=now - 60.5,
        due_at=now - 60.5,
    )
    return msgspec.structs.replace(plain, **fields)


async def delayed(h: Harness, id: str, **fields: Any) -> Stored:
    """A message that is due after a LONG time."""
    due_at = await moment(h) + 2 + math.ceil(LONG * h.unit)
    return await foreign(h, id, **{"state": State.DELAYED, "due_at": due_at, **fields})


async def archived(h: Harness, id: str, **fields: Any) -> Stored:
    """A message that was archived a while ago."""
    found: dict[str, Any] = {"state": State.ARCHIVED, "note": Note("failed", "no")}
    if "archived_at" not in fields:
        fields["archived_at"] = await moment(h) - 30.25
    return await foreign(h, id, **{**found, **fields})


async def rich(h: Harness, id: str, state: State = State.READY, **fields: Any) -> Stored:
    """A message that has everything that a message without a lease can have."""
    makers = {State.READY: foreign, State.DELAYED: delayed, State.ARCHIVED: archived}
    everything: dict[str, Any] = {
        "body": bytes(range(256)),
        "headers": MappingProxyType({"": "x", "trace": '"🐝"\n'}),
        "priority": -7,
        "counters": Counters(
            deliveries=11, errors=5, timeouts=4, stalls=3, releases=2, unknowns=2**31 - 1
        ),
        "holder": "ann 🐝:9",
        "note": Note("timed_out", "Traceback:\n  \0 日本"),
        "key": "k:{é}",
        "awaits": 3,
        "reports_to": "other 🐝",
        "progress": "50 % 🐝",
        "history": DIARY,
    }
    return await makers[state](h, id, **{**everything, **fields})


async def adopt(
    h: Harness,
    *messages: Stored,
    reports: Mapping[str, Sequence[Report]] | None = None,
    beyond: int = 0,
) -> list[Stored]:
    """Take messages in; those that were not."""
    told = {} if reports is None else reports
    return list(await h.broker.adopt(h.queue, messages, reports=told, beyond=beyond))


async def expel(h: Harness, *messages: Stored) -> list[Stored]:
    """Delete messages as they were seen; those that are not there like that."""
    return list(await h.broker.expel(h.queue, messages))


async def everything(h: Harness, state: State) -> list[Stored]:
    """All messages in that state, in order."""
    return await pages(h, state, 1000)


def taken(*messages: Stored) -> list[Stored]:
    """What tells whether messages are the same, in whatever store: all but the incarnation."""
    return [
        msgspec.structs.replace(
            one, incarnation=0, headers=dict(one.headers), history=tuple(one.history)
        )
        for one in messages
    ]
