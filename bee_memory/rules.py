"""What an arrival may change: in a message that waits, and in a successor that is there already."""

from __future__ import annotations

from typing import assert_never

import msgspec

from bee_core.message import ZERO, RunAt, Update
from bee_memory.messages import Arrival, Message


def revise(message: Message, arrival: Arrival) -> None:
    """Change a message that waits, field by field."""
    rule, draft = arrival.rule, arrival.draft
    if rule.payload:
        message.body = draft.body
    if rule.policy:
        message.headers, message.priority, message.key = draft.headers, draft.priority, draft.key
    if rule.resets:
        message.counters = ZERO
    if moves(rule, message.due, arrival.due):
        message.due, message.sequence = arrival.due, arrival.number


def moves(rule: Update, old: float, new: float) -> bool:
    """Whether a message due at `old` is to be due at `new` instead."""
    match rule.run_at:
        case "always":
            return True
        case "never":
            return False
        case "if_later":
            return new > old
        case "if_earlier":
            return new < old
        case _:
            assert_never(rule.run_at)


def _both(first: RunAt, second: RunAt, moved: bool) -> RunAt:
    """The rule for the time that two rules, one after the other, have left in a successor."""
    if second == "never" or first == second:
        return first
    if first == "never":
        return second
    return "always" if moved or "always" in (first, second) else first


def join(successor: Arrival, further: Arrival) -> None:
    """Merge a further draft into a successor, which then remembers both their wishes."""
    first, second = successor.rule, further.rule
    draft = successor.draft
    if second.payload:
        draft = msgspec.structs.replace(draft, body=further.draft.body)
    if second.policy:
        headers, priority = further.draft.headers, further.draft.priority
        key = further.draft.key
        draft = msgspec.structs.replace(draft, headers=headers, priority=priority, key=key)
    moved = moves(second, successor.due, further.due)
    if moved:
        successor.due, successor.number = further.due, further.number
    successor.draft = draft
    successor.rule = Update(
        payload=first.payload or second.payload,
        run_at=_both(first.run_at, second.run_at, moved),
        policy=first.policy or second.policy,
        reset_counts=first.resets or second.resets,
    )
