"""What to do when an attempt has ended.

The whole state machine of bee is in this file, and only here. It is pure: no
clock, no randomness, no broker. To add an outcome, add its class in outcome.py
and follow the type checker's complaints; they all lead back here.
"""

from __future__ import annotations

from typing import assert_never

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Counters
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
)
from bee_core.strategy import Backoff, Repeat, Rules

UNKNOWN = Repeat(15, backoff=Backoff(min=1, factor=2, max=60))
"""A kind this worker does not know may be known to the next release: wait for it ten minutes."""


def decide(rules: Rules, outcome: Outcome, counters: Counters, chance: float) -> Disposition:
    """What becomes of a message after `outcome`.

    `counters` already include this outcome, so a repeat is granted while the
    counter it looks at is not above the strategy's `times`. `chance` in [0, 1)
    feeds the backoff's jitter.
    """
    match outcome:
        case Succeeded():
            return rules.on_success
        case Failed(permanent=True):
            return _terminal(rules.on_error)
        case Failed(retry=retry, after=after):
            asked = retry and not isinstance(rules.on_error, Repeat)
            strategy = Repeat(None) if asked else rules.on_error
            return _apply(strategy, counters.errors, rules.backoff, chance, after)
        case TimedOut():
            return _apply(rules.on_timeout, counters.timeouts, rules.backoff, chance)
        case Stalled():
            # Its lease has run out: it has waited long enough, and keeps its place.
            again = _apply(rules.on_stall, counters.stalls, rules.backoff, chance)
            return Reschedule(front=True) if isinstance(again, Reschedule) else again
        case Interrupted():
            return rules.on_interrupt
        case Unknown():
            return _apply(UNKNOWN, counters.unknowns, rules.backoff, chance)
        case Malformed():
            return Archive()
        case Ruled(disposition=disposition):
            return disposition
        case _:
            assert_never(outcome)


def _apply(
    strategy: Delete | Archive | Repeat,
    count: int,
    backoff: Backoff,
    chance: float,
    after: float | None = None,
) -> Disposition:
    match strategy:
        case Delete() | Archive():
            return strategy
        case Repeat(times=times, otherwise=otherwise) if times is not None and count > times:
            return otherwise
        case Repeat(backoff=own):
            return Reschedule(after if after is not None else (own or backoff).delay(count, chance))
        case _:
            assert_never(strategy)


def _terminal(strategy: Delete | Archive | Repeat) -> Delete | Archive:
    return strategy.otherwise if isinstance(strategy, Repeat) else strategy
