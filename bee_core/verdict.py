"""From how an attempt ended to what the broker is told: `decide`, and all that goes with it."""

from __future__ import annotations

from typing import Any

from bee_core.attempt import Attempt, describe, note_of
from bee_core.checks import LONGEST_SUMMARY
from bee_core.codec import encode_value
from bee_core.decide import decide
from bee_core.disposition import Delete, Reschedule
from bee_core.errors import InvalidPayload
from bee_core.handlers import Handlers
from bee_core.logs import error_line
from bee_core.message import ZERO, Counters, Draft, Note, Settlement
from bee_core.outcome import Failed, Interrupted, Outcome, Ruled, Stalled, Succeeded, TimedOut
from bee_core.strategy import Rules
from bee_core.text import on_one_line, storable


def settlement_for(
    attempt: Attempt,
    outcome: Outcome,
    added: Counters,
    handlers: Handlers[Any],
    chance: float,
    max_bytes: int,
) -> Settlement:
    """How to settle an attempt, whose counters rise by `added`.

    A result of more than `max_bytes`, or one that is no JSON, is not kept, and the note says so:
    the job itself has succeeded.
    """
    lease = attempt.lease
    counters = lease.counters if added is ZERO else lease.counters + added
    disposition = decide(attempt.rules, outcome, counters, chance)
    keep, delivery = attempt.rules.keep_result, attempt.delivery
    follow_ups = () if delivery is None else delivery.follow_ups
    is_reported = keep is not None or lease.reports_to is not None
    if type(outcome) is Succeeded and type(disposition) is Delete and not is_reported:
        return Settlement(lease.receipt, disposition, None, ZERO, follow_ups)  # as a rule
    note: Note | None = None
    if not isinstance(outcome, Succeeded) or not isinstance(disposition, Delete):
        note = note_of(outcome)  # or else nothing will be left that could carry it
    then: tuple[Draft, ...] = ()
    if isinstance(disposition, Reschedule) or isinstance(outcome, Interrupted):
        pass  # it is not over, or not its own doing: nothing follows from it
    elif isinstance(outcome, Succeeded | Ruled):
        then = follow_ups
    elif note is not None:
        then = handlers.report(lease, counters, note)
    summary = "" if note is None else _summary(outcome, note)
    if not is_reported or isinstance(disposition, Reschedule):
        return Settlement(lease.receipt, disposition, note, added, then, summary=summary)
    result = b""
    if isinstance(outcome, Succeeded):
        result, note = _result(outcome, max_bytes)
    return Settlement(lease.receipt, disposition, note, added, then, result, keep or 0.0, summary)


def _summary(outcome: Outcome, note: Note) -> str:
    """The note in one short line."""
    text = error_line(outcome.error) if isinstance(outcome, Failed) else note.detail
    line = text.strip().partition("\n")[0]
    if isinstance(outcome, TimedOut):
        line = line.removesuffix(", at")  # a stack follows
    return on_one_line(line, LONGEST_SUMMARY)


def _result(outcome: Succeeded, max_bytes: int) -> tuple[bytes, Note]:
    """What is kept of a success: its result, or why there is none."""
    try:
        result = encode_value(outcome.result)
    except InvalidPayload as error:
        kind = type(outcome.result).__name__
        return b"", Note("succeeded", storable(f"its result, a {kind}: {error}"))
    except BaseException as error:  # whatever a value of the user's does while it is looked at
        return b"", Note("succeeded", storable(f"its result: {describe(error)}"))
    if len(result) > max_bytes:
        size = f"its result has {len(result)} bytes; the queue takes at most {max_bytes}"
        return b"", Note("succeeded", size)
    return result, Note("succeeded")


def give_back(attempt: Attempt, why: str) -> Settlement:
    """For a lease that is not to be started: back to its place, at no cost."""
    free = Counters(releases=1)
    return Settlement(
        attempt.lease.receipt,
        Reschedule(front=True),
        counters=free,
        summary=f"given back before it ran: {why}",
    )


def is_poisoned(rules: Rules, counters: Counters) -> bool:
    """Whether a message has taken down more workers than its policy allows."""
    return not isinstance(decide(rules, Stalled(), counters, 0.0), Reschedule)
