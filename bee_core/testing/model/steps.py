"""What a step may be made of: drafts, durations, endings, receipts.

Few ids, few keys, few durations, so that steps meet. Nothing is drawn whose outcome the contract
leaves open: see `apart` and `settlements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

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
    Settlement,
    Update,
)
from bee_core.testing.model.subject import MOMENT

IDS = ("a", "b", "c", "d", "e", "f")
PARENTS = ("a", "b")
"""To whom others may report."""
LONG = 10_000.0
NOBODY = Receipt("nobody", 1)

Forgery: TypeAlias = Literal["none", "another id", "another token"]
Choice: TypeAlias = tuple[int, Forgery]
"""Which of the receipts, counted from the newest, and what is wrong with it."""

DURATION = st.sampled_from([MOMENT, MOMENT, 100.0, 200.0, 300.0, LONG])
_DELAY = st.sampled_from([0.0, 0.0, 0.0, 0.0, MOMENT, 100.0, 200.0, LONG])
_BODY = st.sampled_from([b"", b"1", b"2", b"3"])
_FORGERIES: list[Forgery] = ["none", "none", "none", "none", "another id", "another token"]
_TERMINALS: list[Terminal] = [Delete(), Archive()]
_DISPOSITIONS: list[Disposition] = [
    Delete(),
    Delete(),
    Archive(),
    Reschedule(),
    Reschedule(MOMENT),
    Reschedule(100.0),
    Reschedule(front=True),
]
_NOTES = [None, None, Note("succeeded"), Note("failed", "why")]
_COUNTS = [ZERO, ZERO, Counters(errors=1), Counters(timeouts=1, releases=2), Counters(unknowns=1)]
_IF_TAKEN: st.SearchStrategy[IfTaken] = st.one_of(
    st.just(Keep()),
    st.just(Reject()),
    st.builds(
        Update,
        payload=st.booleans(),
        run_at=st.sampled_from(["always", "never", "if_later", "if_earlier"]),
        policy=st.booleans(),
        reset_counts=st.sampled_from([None, True, False]),
    ),
)

IDS_OF_A_CALL = st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
TERMINAL = st.sampled_from(_TERMINALS)
CHOICES: st.SearchStrategy[list[Choice]] = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from(_FORGERIES)), min_size=1, max_size=3
)
DRAFT = st.builds(
    Draft,
    id=st.sampled_from(IDS),
    body=_BODY,
    delay=_DELAY,
    priority=st.sampled_from([0, 0, 0, 1, -9]),
    headers=st.sampled_from([{}, {}, {"x": "y"}]),
    if_taken=_IF_TAKEN,
    key=st.sampled_from([None, None, None, "k", "l"]),
    awaits=st.sampled_from([0, 0, 0, 1, 2]),
    reports_to=st.sampled_from([None, None, *PARENTS]),
)
DRAFTS = st.lists(DRAFT, min_size=1, max_size=4, unique_by=lambda draft: draft.id)
ENDING = st.builds(
    Settlement,
    receipt=st.just(NOBODY),
    disposition=st.sampled_from(_DISPOSITIONS),
    note=st.sampled_from(_NOTES),
    counters=st.sampled_from(_COUNTS),
    then=st.one_of(st.just([]), st.just([]), DRAFTS),
    result=st.sampled_from([b"", b"r"]),
    keep=st.sampled_from([0.0, 0.0, MOMENT, 100.0]),
)
ENDINGS = st.lists(ENDING, min_size=3, max_size=3)


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


def settlements(receipts: Sequence[Receipt], endings: Sequence[Settlement]) -> list[Settlement]:
    """One ending for each receipt. In which order those of one call are taken is open.

    So none of them may touch what another does; and none sends what it has just put back, because
    it is open whether that is in the same moment.
    """
    ids = set(apart([receipt.id for receipt in receipts]))
    receipts = [receipt for receipt in receipts if receipt.id in ids]
    sent: set[str] = set()
    found = []
    for receipt, ending in zip(receipts, endings, strict=False):
        is_alone = len(receipts) == 1 and not isinstance(ending.disposition, Reschedule)
        taboo = sent.union(PARENTS, () if is_alone else ids)
        then = [draft for draft in ending.then if draft.id not in taboo]
        sent.update(draft.id for draft in then)
        found.append(msgspec.structs.replace(ending, receipt=receipt, then=then))
    return found
