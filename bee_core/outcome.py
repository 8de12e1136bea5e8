"""What can happen to an attempt, as a closed family of values.

`Retry` and `Snooze` are how a handler speaks up itself; it may raise or return them,
and it may return a `Disposition` to overrule its policy altogether.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias, assert_never

import msgspec

from bee_core.disposition import Disposition, Reschedule
from bee_core.duration import Duration, seconds
from bee_core.message import ZERO, Counters, Reason


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    """The handler returned."""

    result: object = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The handler raised. `permanent` ends repeats; `retry` asks for one, `after` says when."""

    error: BaseException
    permanent: bool = False
    retry: bool = False
    after: float | None = None


class TimedOut(msgspec.Struct, frozen=True, tag=True):
    """The run took longer than the policy's timeout, and bee stopped it."""

    after: float
    where: str = ""
    """The stack of the handler at that moment, if it is an async one."""


class Stalled(msgspec.Struct, frozen=True, tag=True):
    """The worker (or the process that ran the handler) died, or its lease ran out."""

    detail: str = ""


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """The worker was shut down before the handler had ended."""


class Malformed(msgspec.Struct, frozen=True, tag=True):
    """The body is not a job of this queue. The handler was not called."""

    problem: str


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """The body is a job of a kind this worker does not know. The handler was not called."""

    problem: str


class Ruled(msgspec.Struct, frozen=True, tag=True):
    """The handler itself decided."""

    disposition: Disposition


Outcome: TypeAlias = (
    Succeeded | Failed | TimedOut | Stalled | Interrupted | Malformed | Unknown | Ruled
)


class Retry(Exception):
    """Raise or return it in a handler: a failed run, to be repeated after exactly `after`.

    It overrules an `on_error` that would not repeat, and obeys the limit of one that does. It
    counts as an error; without `after` the backoff decides when.
    """

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after, "Retry after")


class Snooze(Exception):
    """Raise or return it in a handler: not now, come back in `delay`. Costs the job nothing."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay = seconds(delay, "Snooze delay")

    def __reduce__(self) -> tuple[type[Snooze], tuple[float, str]]:
        return Snooze, (self.delay, str(self))


COUNTED: Mapping[str, str] = MappingProxyType(
    {
        "failed": "errors",
        "timed_out": "timeouts",
        "stalled": "stalls",
        "interrupted": "releases",
        "unknown": "unknowns",
    }
)
"""The counter that is raised by a run which ends for a reason, as far as the reason tells."""


def tally(outcome: Outcome) -> Counters:
    """What this outcome adds to the counters of its message."""
    match outcome:
        case Succeeded() | Malformed():
            return ZERO
        case Failed():
            return Counters(errors=1)
        case TimedOut():
            return Counters(timeouts=1)
        case Stalled():
            return Counters(stalls=1)
        case Interrupted():
            return Counters(releases=1)
        case Unknown():
            return Counters(unknowns=1)
        case Ruled(disposition=disposition):
            return Counters(releases=1) if isinstance(disposition, Reschedule) else ZERO
        case _:
            assert_never(outcome)


def reason_of(outcome: Outcome) -> Reason:
    """The outcome as one word: that of its note."""
    match outcome:
        case Succeeded():
            return "succeeded"
        case Failed():
            return "failed"
        case TimedOut():
            return "timed_out"
        case Stalled():
            return "stalled"
        case Interrupted():
            return "interrupted"
        case Malformed():
            return "malformed"
        case Unknown():
            return "unknown"
        case Ruled():
            return "ruled"
        case _:
            assert_never(outcome)
