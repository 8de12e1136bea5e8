"""The steps of a run, and how they are drawn.

Few ids, few keys, few durations, so that steps meet. Nothing is drawn whose outcome the contract
leaves open: see `apart`, `in_one_moment` and `settlements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
from hypothesis import strategies as st

from bee_core.disposition import Archive, Delete, Disposition, Reschedule, Terminal
from bee_core.message import (
    ZERO,
    Counters,
    Draft,
    IfTaken,
    Keep,
    Note,
    Receipt,
    Reject,
    RunAt,
    Settlement,
    Update,
)
from bee_core.testing.model.subject import CLIENTS, MOMENT

IDS = ("a", "b", "c", "d", "e", "f")
PARENTS = ("a", "b")
"""To whom others may report."""
LONG = 10_000.0
NOBODY = Receipt("nobody", 1)

Forgery: TypeAlias = Literal["none", "another id", "another token"]
Choice: TypeAlias = tuple[int, Forgery]
"""Which of the receipts, counted from the newest, and what is wrong with it."""
Operation: TypeAlias = Literal["pause", "resume", "prune", "prune all", "purge", "drop"]


@dataclass(frozen=True)
class Call:
    """What one of the clients does. If the answer is lost it does so again (but for a lease)."""

    client: int
    is_lost: bool


@dataclass(frozen=True)
class Send(Call):
    """Send drafts."""

    drafts: Sequence[Draft]


@dataclass(frozen=True)
class Take(Call):
    """Lease messages."""

    limit: int
    duration: float


@dataclass(frozen=True)
class Extend(Call):
    """Extend leases, current or not, own or not."""

    which: Sequence[Choice]
    duration: float


@dataclass(frozen=True)
class Settle(Call):
    """Settle leases, current or not, own or not."""

    which: Sequence[Choice]
    endings: Sequence[Settlement]


@dataclass(frozen=True)
class Cancel(Call):
    """Cancel messages, there or not."""

    ids: Sequence[str]
    to: Terminal
    running: bool


@dataclass(frozen=True)
class Restore(Call):
    """Restore messages, archived or not."""

    ids: Sequence[str]


@dataclass(frozen=True)
class Operate:
    """What an operator does to the queue as a whole."""

    what: Operation


@dataclass(frozen=True)
class Crash:
    """A client is gone, whatever it holds."""

    client: int


@dataclass(frozen=True)
class Pass:
    """Time passes, if the store's clock can be moved."""

    seconds: float


@dataclass(frozen=True)
class Disturb:
    """What must not matter is done to the store, if there is such a thing."""


Step: TypeAlias = (
    Send | Take | Extend | Settle | Cancel | Restore | Operate | Crash | Pass | Disturb
)

_TIMES: list[RunAt] = ["always", "always", "never", "if_later", "if_earlier"]
_UPDATES = [
    Update(payload=payload, run_at=run_at, policy=policy, reset_counts=resets)
    for run_at in _TIMES
    for payload in (True, False)
    for policy in (True, False)
    for resets in (None, True)
]
_IF_TAKEN: list[IfTaken] = [*[Keep()] * 20, *[Reject()] * 5, *_UPDATES]
_FORGERIES: list[Forgery] = [*["none"] * 8, "another id", "another token"]  # type: ignore[list-item]
_OPERATIONS: list[Operation] = ["resume", "resume", "pause", "prune", "prune all", "purge", "drop"]
_TERMINALS: list[Terminal] = [Delete(), Archive()]
_REPEATS = [Reschedule(), Reschedule(MOMENT), Reschedule(100.0), Reschedule(front=True)]
_DISPOSITIONS: list[Disposition] = [Delete(), Delete(), Archive(), Archive(), *_REPEATS]
_NOTES = [None, None, Note("succeeded"), Note("failed", "why")]
_COUNTS = [ZERO, ZERO, Counters(errors=1), Counters(timeouts=1, releases=2), Counters(unknowns=1)]

_CLIENT = st.integers(0, CLIENTS - 1)
_IS_LOST = st.sampled_from([False] * 7 + [True])
_DURATION = st.sampled_from([MOMENT, 100.0, 200.0, LONG])
_IDS = st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True)
_WHICH: st.SearchStrategy[Any] = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(_FORGERIES)), min_size=1, max_size=2
)
_DRAFT = st.builds(
    Draft,
    id=st.sampled_from(IDS),
    body=st.sampled_from([b"1", b"2", b""]),
    delay=st.sampled_from([0.0, 0.0, 0.0, 0.0, MOMENT, 100.0, 200.0, LONG]),
    priority=st.sampled_from([0, 0, 0, 1, -9]),
    headers=st.sampled_from([{}, {}, {"x": "y"}]),
    if_taken=st.sampled_from(_IF_TAKEN),
    key=st.sampled_from([None, None, None, "k", "l"]),
    awaits=st.sampled_from([0, 0, 0, 0, 1, 2]),
    reports_to=st.sampled_from([None, None, None, *PARENTS]),
)
_DRAFTS = st.lists(_DRAFT, min_size=1, max_size=3, unique_by=lambda draft: draft.id)
_ENDING = st.builds(
    Settlement,
    receipt=st.just(NOBODY),
    disposition=st.sampled_from(_DISPOSITIONS),
    note=st.sampled_from(_NOTES),
    counters=st.sampled_from(_COUNTS),
    then=st.sampled_from([0, 0, 0, 0, 1]).flatmap(
        lambda some: st.lists(_DRAFT, min_size=some, max_size=some)
    ),
    result=st.sampled_from([b"", b"r"]),
    keep=st.sampled_from([0.0, 0.0, MOMENT, 100.0]),
)
_ENDINGS = st.lists(_ENDING, min_size=2, max_size=2)
_SECONDS = st.sampled_from([50.0, 100.0, 150.0, 250.0, LONG])
_CALL: dict[str, Any] = {"client": _CLIENT, "is_lost": _IS_LOST}
_KINDS: list[tuple[int, st.SearchStrategy[Step]]] = [
    (12, st.builds(Send, **_CALL, drafts=_DRAFTS)),
    (12, st.builds(Take, **_CALL, limit=st.integers(1, 3), duration=_DURATION)),
    (4, st.builds(Extend, **_CALL, which=_WHICH, duration=_DURATION)),
    (10, st.builds(Settle, **_CALL, which=_WHICH, endings=_ENDINGS)),
    (
        2,
        st.builds(Cancel, **_CALL, ids=_IDS, to=st.sampled_from(_TERMINALS), running=st.booleans()),
    ),
    (3, st.builds(Restore, **_CALL, ids=_IDS)),
    (2, st.builds(Operate, what=st.sampled_from(_OPERATIONS))),
    (1, st.builds(Crash, client=_CLIENT)),
    (4, st.builds(Pass, seconds=_SECONDS)),
    (1, st.builds(Disturb)),
]
_WEIGHTED = [kind for weight, kind in _KINDS for _ in range(weight)]


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Any step, those of a message's life more often than others."""
    return draw(draw(st.sampled_from(_WEIGHTED)))


def chosen(choices: Sequence[Choice], given: Sequence[Receipt]) -> list[Receipt]:
    """The receipts that are meant: distinct, some of them forged. None, if none was given yet."""
    found = []
    for number, forgery in choices if given else ():
        receipt = given[-1 - number % len(given)]
        other = given[-1 - (number + 1) % len(given)]
        match forgery:
            case "none":
                found.append(receipt)
            case "another id":
                found.append(Receipt(other.id, receipt.token))
            case "another token":
                found.append(Receipt(receipt.id, receipt.token + 1))
    return list(dict.fromkeys(found))


def apart(ids: Sequence[str]) -> Sequence[str]:
    """As many as may end in one call: if one reports to another, it is open which is first."""
    return ids[:1] if set(PARENTS) & set(ids) else ids


def plain(drafts: Sequence[Draft]) -> list[Draft]:
    """Drafts of which nothing is asked but to be kept until they are due."""
    return [Draft(draft.id, draft.body, draft.delay, draft.priority) for draft in drafts]


def plain_ends(endings: Sequence[Settlement]) -> list[Settlement]:
    """Settlements of which nothing is asked but to be done."""
    return [Settlement(ending.receipt, ending.disposition) for ending in endings]


def in_one_moment(drafts: Sequence[Draft]) -> list[Draft]:
    """A call may take longer than a moment: what it sends is delayed by one, or nothing is."""
    if all(draft.delay != MOMENT for draft in drafts):
        return list(drafts)
    return [
        msgspec.structs.replace(draft, delay=MOMENT) if not draft.delay else draft
        for draft in drafts
    ]


def settlements(receipts: Sequence[Receipt], endings: Sequence[Settlement]) -> list[Settlement]:
    """One ending for each receipt. In which order those of one call are taken is open.

    So none of them may touch what another does; and none sends what it has just put back, because
    it is open whether that is in the same moment. Where a moment counts there is one thing to do.
    """
    ids = set(apart([receipt.id for receipt in receipts]))
    receipts = [receipt for receipt in receipts if receipt.id in ids]
    if any(ending.disposition == Reschedule(MOMENT) for ending in endings):
        receipts = receipts[:1]
    sent: set[str] = set()
    found = []
    for receipt, ending in zip(receipts, endings, strict=False):
        is_alone = len(receipts) == 1 and not isinstance(ending.disposition, Reschedule)
        taboo = sent.union(PARENTS, () if is_alone else ids)
        then = [draft for draft in ending.then if draft.id not in taboo]
        if ending.disposition == Reschedule(MOMENT):
            then = []
        sent.update(draft.id for draft in then)
        found.append(msgspec.structs.replace(ending, receipt=receipt, then=then))
    return found
