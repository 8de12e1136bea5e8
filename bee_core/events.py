"""What observers hear: a closed family of frozen records, one argument, nothing to return.

An observer is any callable that takes an event. It is called in the worker's event loop
(LoopBlocked alone comes from the heartbeat's thread) and can never break the worker: what
it raises is logged and forgotten. Adding a field to an event breaks nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

import msgspec

from bee_core.disposition import Disposition
from bee_core.message import Counters, Note
from bee_core.outcome import Outcome
from bee_core.stored import Finding

log = logging.getLogger("bee")


class WorkerStarted(msgspec.Struct, frozen=True):
    """A worker begins to take jobs."""

    queue: str
    holder: str


class WorkerStopped(msgspec.Struct, frozen=True):
    """A worker has left; nothing of it is running any more, but for stuck handlers."""

    queue: str
    holder: str
    settled: int
    stuck: int


class AttemptStarted(msgspec.Struct, frozen=True):
    """A handler is about to be called."""

    queue: str
    id: str
    token: int
    tag: str
    attempt: int
    holder: str = ""


class AttemptSettled(msgspec.Struct, frozen=True):
    """The broker has confirmed how an attempt ended."""

    queue: str
    id: str
    token: int
    tag: str
    attempt: int
    outcome: Outcome
    disposition: Disposition
    counters: Counters
    duration: float
    note: Note | None = None


class ResultDropped(msgspec.Struct, frozen=True):
    """A job has succeeded, but what it returned could not be kept: too large, or not JSON."""

    queue: str
    id: str
    token: int
    tag: str
    problem: str


class AttemptLost(msgspec.Struct, frozen=True):
    """An attempt no longer held its message, so what it did changed nothing in the queue.

    Somebody else has the message, or it was cancelled. `outcome` is how the handler ended, if
    it did before the loss was known. `certain` is false when an answer had been lost on the
    way, so that the settlement may have been applied after all, and when the lease could not be
    renewed in time, so that nobody knows who has the message.
    """

    queue: str
    id: str
    token: int
    tag: str
    outcome: Outcome | None = None
    certain: bool = True


class HandlerStuck(msgspec.Struct, frozen=True):
    """A handler ignores its cancellation. Its message has been seen to; it runs on, unheard."""

    queue: str
    id: str
    token: int
    tag: str
    stuck: int


class LoopBlocked(msgspec.Struct, frozen=True):
    """The event loop does not answer: something in it blocks. Leases are still renewed."""

    queue: str
    running: tuple[str, ...]
    stack: str
    culprit: str | None = None
    """The id of the job that blocks it, if that can be told."""


class BrokerTrouble(msgspec.Struct, frozen=True):
    """A verb failed. Told once when trouble begins, not at every try."""

    queue: str
    verb: str
    error: Exception


class BrokerRecovered(msgspec.Struct, frozen=True):
    """The verb works again."""

    queue: str
    verb: str


class BrokerAilment(msgspec.Struct, frozen=True):
    """The store works, but something about it needs an operator. Told once, then now and then."""

    queue: str
    finding: Finding


class SettlementRefused(msgspec.Struct, frozen=True):
    """The broker would not take a settlement as it was; the message was given back instead."""

    queue: str
    id: str
    token: int
    error: Exception


class ScheduleMissed(msgspec.Struct, frozen=True):
    """No worker came to a schedule in time. `instant` is the first that has no job of its own.

    `late` is how late one came, in seconds, and `sent` the id of the one job that was sent then,
    if any.
    """

    queue: str
    name: str
    instant: float
    late: float
    sent: str | None


class ProcessStarted(msgspec.Struct, frozen=True):
    """`bee worker --processes` has started one. `process` is its number, from 0."""

    process: int
    pid: int


class ProcessEnded(msgspec.Struct, frozen=True):
    """A process has ended: by itself with `code`, or by the signal of that name.

    `wanted` is whether it was to: told to stop, replaced, or done.
    """

    process: int
    pid: int
    code: int | None
    signal: str | None
    wanted: bool


class ProcessSlowed(msgspec.Struct, frozen=True):
    """A process crashes again and again. It is started only every `pause` seconds from now on."""

    process: int
    crashes: int
    pause: float


class EventsDropped(msgspec.Struct, frozen=True):
    """Nobody took the events of this process fast enough; so many are missing before this one."""

    count: int


class ConcurrencyChanged(msgspec.Struct, frozen=True):
    """`Auto` has changed how many jobs run at once. `*` as the queue: over all queues of a hive."""

    queue: str
    size: int
    cpu: float
    lag: float


Event: TypeAlias = (
    WorkerStarted
    | WorkerStopped
    | AttemptStarted
    | AttemptSettled
    | ResultDropped
    | AttemptLost
    | HandlerStuck
    | LoopBlocked
    | BrokerTrouble
    | BrokerRecovered
    | BrokerAilment
    | SettlementRefused
    | ScheduleMissed
    | ProcessStarted
    | ProcessEnded
    | ProcessSlowed
    | EventsDropped
    | ConcurrencyChanged
)

Observer: TypeAlias = Callable[[Event], None]


def announce(observers: Iterable[Observer], event: Event) -> None:
    """Tell all observers; one that raises is logged and does not stop the others."""
    for observer in observers:
        try:
            observer(event)
        except KeyboardInterrupt:
            raise
        except BaseException:
            with suppress(Exception):  # the log itself may be what fails
                log.exception("observer %r failed on %s", observer, type(event).__name__)
