"""What observers hear: a closed family of frozen records, one argument, nothing to return.

An observer is any callable that takes an event. It is called in the worker's event loop
(LoopBlocked alone comes from the heartbeat's thread) and can never break the worker: what
it raises is logged and forgotten. Adding a field to an event breaks nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

import msgspec

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Counters, Finding
from bee_core.outcome import Failed, Malformed, Outcome, Stalled, TimedOut, Unknown

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
            log.exception("observer %r failed on %s", observer, type(event).__name__)


def log_events(event: Event) -> None:
    """The default observer: trouble as errors and warnings, workers as info, the rest as debug."""
    match event:
        case AttemptStarted(queue=queue, id=id, tag=tag, attempt=attempt):
            log.debug("start %s queue=%s id=%s attempt=%d", tag, queue, id, attempt)
        case AttemptSettled():
            _log_settled(event)
        case ResultDropped(queue=queue, id=id, tag=tag, problem=problem):
            log.warning("result dropped %s queue=%s id=%s: %s", tag, queue, id, problem)
        case AttemptLost(queue=queue, id=id, tag=tag):
            log.warning("lost %s queue=%s id=%s: no longer held here", tag, queue, id)
        case HandlerStuck(queue=queue, id=id, tag=tag, stuck=stuck):
            log.error("stuck %s queue=%s id=%s: ignores cancel, stuck=%d", tag, queue, id, stuck)
        case LoopBlocked(queue=queue, running=running, stack=stack):
            log.error("event loop blocked queue=%s running=%s\n%s", queue, running, stack)
        case BrokerTrouble(queue=queue, verb=verb, error=error):
            log.warning("broker trouble queue=%s verb=%s error=%r", queue, verb, error)
        case BrokerRecovered(queue=queue, verb=verb):
            log.warning("broker recovered queue=%s verb=%s", queue, verb)
        case BrokerAilment(queue=queue, finding=Finding(topic=topic, text=text)):
            log.warning("broker: %s queue=%s: %s", topic, queue, text)
        case SettlementRefused(queue=queue, id=id, error=error):
            log.error("settlement refused queue=%s id=%s error=%r", queue, id, error)
        case ScheduleMissed(queue=queue, name=name, late=late, sent=sent):
            what = "nothing was sent" if sent is None else f"sent {sent}"
            log.warning("schedule missed queue=%s name=%s late=%.1fs: %s", queue, name, late, what)
        case ConcurrencyChanged(queue=queue, size=size, cpu=cpu, lag=lag):
            log.debug("concurrency queue=%s size=%d cpu=%.2f lag=%.3fs", queue, size, cpu, lag)
        case WorkerStarted(queue=queue, holder=holder):
            log.info("worker started queue=%s holder=%s", queue, holder)
        case WorkerStopped(queue=queue, holder=holder, settled=settled, stuck=stuck):
            log.info(
                "worker stopped queue=%s holder=%s settled=%d stuck=%d",
                queue,
                holder,
                settled,
                stuck,
            )
        case _:
            assert_never(event)


def _log_settled(event: AttemptSettled) -> None:
    bad = isinstance(event.outcome, Failed | TimedOut | Stalled | Malformed | Unknown)
    level = logging.WARNING if bad else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    match event.disposition:
        case Delete():
            fate = "deleted"
        case Archive():
            fate = "archived"
        case Reschedule(delay=delay):
            fate = f"again in {delay:.1f}s"
        case _:
            assert_never(event.disposition)
    log.log(
        level,
        "%s %s queue=%s id=%s attempt=%d in=%.3fs: %s",
        type(event.outcome).__name__.lower(),
        event.tag,
        event.queue,
        event.id,
        event.attempt,
        event.duration,
        fate,
    )
