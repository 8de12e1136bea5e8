"""What stands in a store, in the words of people: spans of time, numbers, errors."""

from __future__ import annotations

from typing import assert_never

from bee_core.fingerprint import LONGEST, error_of
from bee_core.stored import State, Stored
from bee_core.text import escaped

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """`0.3s`, `12s`, `3m12s`, `2h05m`, `3d04h`: at most two units."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s".replace(".0s", "s")
    whole = int(seconds)
    for place, (unit, name) in enumerate(_UNITS):
        if whole >= unit:
            text = f"{whole // unit}{name}"
            if place + 1 < len(_UNITS):
                smaller, letter = _UNITS[place + 1]
                if rest := whole % unit // smaller:
                    text += f"{rest:02}{letter}"
            return text
    raise AssertionError("unreachable")


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def one_line(text: str, longest: int = LONGEST) -> str:
    """Text from a store as it may be shown: one line, bounded, nothing that moves a cursor."""
    line = escaped(text.strip())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def many_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(escaped(line.replace("\t", "    ")) for line in text.splitlines())


def last_error(stored: Stored) -> str:
    """What went wrong last, in one line; empty if nothing did."""
    note = stored.note
    if note is None or note.reason == "succeeded":
        return ""
    line = error_of(note) or (stored.history[-1].summary if stored.history else "")
    return one_line(line or note.reason.replace("_", " "))


def standing(stored: Stored, now: float) -> str:
    """How long it has been where it is, or when it will be due."""
    match stored.state:
        case State.READY:
            return f"waits {span(now - stored.due_at)}"
        case State.DELAYED:
            return f"in {span(stored.due_at - now)}"
        case State.LEASED:
            return f"runs {span(now - (stored.leased_at or now))}"
        case State.BLOCKED:
            return f"sent {span(now - stored.sent_at)} ago"
        case State.ARCHIVED:
            return f"{span(now - (stored.archived_at or now))} ago"
        case _:
            assert_never(stored.state)
