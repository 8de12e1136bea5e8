"""What observers hear: a closed family of frozen records, one argument, nothing to return.

An observer is any callable that takes an event. It is called in the worker's event loop
(LoopBlocked alone comes from the heartbeat's thread) and can never break the worker: what
it raises is logged and forgotten. Adding a field to an event breaks nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, assert_never

import msgspec

from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.logs import LONGEST_ERROR, error_line, shown
from bee_core.message import Counters, Finding, Note
from bee_core.outcome import Failed, Malformed, Outcome, Stalled, TimedOut, Unknown, reason_of

log = logging.getLogger("bee")
_SECONDS = {"in": "%.3fs", "again_in": "%.1fs", "late": "%.1fs", "pause": "%.1fs"}
_MOST_SHOWN = 10
"""How many of the ids of running jobs stand on a line."""


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
    """The default observer: trouble as errors and warnings, workers as info, the rest as debug.

    A record's text has its fields as key=value; `record.bee` has them as they are, `event` and
    `tag` among them.
    """
    match event:
        case AttemptStarted(queue=queue, id=id, tag=tag, attempt=attempt):
            if log.isEnabledFor(logging.DEBUG):
                _say(logging.DEBUG, "start", tag, queue=queue, id=id, attempt=attempt)
        case AttemptSettled():
            _log_settled(event)
        case ResultDropped(queue=queue, id=id, tag=tag, problem=problem):
            _say(logging.WARNING, "result dropped", tag, queue=queue, id=id, problem=problem)
        case AttemptLost(queue=queue, id=id, tag=tag, certain=certain):
            _say(logging.WARNING, "lost", tag, queue=queue, id=id, certain=certain)
        case HandlerStuck(queue=queue, id=id, tag=tag, stuck=stuck):
            _say(logging.ERROR, "stuck", tag, queue=queue, id=id, stuck=stuck)
        case LoopBlocked(queue=queue, running=running, stack=stack, culprit=culprit):
            by = culprit or _some(running)
            _say(logging.ERROR, "event loop blocked", stack=stack, queue=queue, by=by)
        case BrokerTrouble(queue=queue, verb=verb, error=error):
            line = error_line(error)
            _say(logging.WARNING, "broker trouble", queue=queue, verb=verb, error=line)
        case BrokerRecovered(queue=queue, verb=verb):
            _say(logging.WARNING, "broker recovered", queue=queue, verb=verb)
        case BrokerAilment(queue=queue, finding=Finding(topic=topic, text=text)):
            _say(logging.WARNING, "broker ailment", queue=queue, topic=topic, finding=text)
        case SettlementRefused(queue=queue, id=id, error=error):
            line = error_line(error)
            _say(logging.ERROR, "settlement refused", queue=queue, id=id, error=line)
        case ScheduleMissed(queue=queue, name=name, late=late, sent=sent):
            what = "nothing" if sent is None else sent
            _say(logging.WARNING, "schedule missed", queue=queue, name=name, late=late, sent=what)
        case ProcessStarted(process=process, pid=pid):
            _say(logging.INFO, "process started", process=process, pid=pid)
        case ProcessEnded(process=process, pid=pid, code=code, signal=signal, wanted=wanted):
            level = logging.INFO if wanted else logging.ERROR
            how = {"code": code} if signal is None else {"signal": signal}
            _say(level, "process ended", process=process, pid=pid, **how)
        case ProcessSlowed(process=process, crashes=crashes, pause=pause):
            _say(logging.ERROR, "crash loop", process=process, crashes=crashes, pause=pause)
        case EventsDropped(count=count):
            _say(logging.WARNING, "events dropped", count=count)
        case WorkerStarted(queue=queue, holder=holder):
            _say(logging.INFO, "worker started", queue=queue, holder=holder)
        case WorkerStopped(queue=queue, holder=holder, settled=settled, stuck=stuck):
            _say(
                logging.INFO,
                "worker stopped",
                queue=queue,
                holder=holder,
                settled=settled,
                stuck=stuck,
            )
        case _:
            assert_never(event)


def _log_settled(event: AttemptSettled) -> None:
    outcome, cause = event.outcome, None
    bad = isinstance(outcome, Failed | TimedOut | Stalled | Malformed | Unknown)
    level = logging.WARNING if bad else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        "queue": event.queue,
        "id": event.id,
        "attempt": event.attempt,
        "in": event.duration,
    }
    if isinstance(outcome, Failed):
        fields["error"] = error_line(outcome.error)
        cause = None if outcome.retry else outcome.error  # who asks for a repeat knows why
    elif isinstance(outcome, Malformed | Unknown):
        fields["problem"] = outcome.problem[:LONGEST_ERROR]
    match event.disposition:
        case Delete():
            fields["fate"] = "deleted"
        case Archive():
            fields["fate"] = "archived"
        case Reschedule(delay=delay):
            fields["again_in"] = delay
        case _:
            assert_never(event.disposition)
    detail = event.note.detail if event.note is not None else ""
    _say(level, reason_of(outcome), event.tag, cause=cause, detail=detail, **fields)


def _say(
    level: int,
    what: str,
    tag: str = "",
    *,
    cause: BaseException | None = None,
    detail: str = "",
    stack: str | None = None,
    **fields: Any,
) -> None:
    """Make a record: a template with key=%s for every field, and the fields themselves.

    `detail` is the bounded traceback of the cause; it stands in for the whole one.
    """
    if not log.isEnabledFor(level):
        return
    template = "".join(
        [what, " %s" if tag else "", *(f" {key}={_SECONDS.get(key, '%s')}" for key in fields)]
    )
    values = [shown(value) if isinstance(value, str) else value for value in fields.values()]
    arguments = ([shown(tag)] if tag else []) + values
    record = log.makeRecord(
        log.name,
        level,
        __file__,
        0,
        template,
        tuple(arguments),
        None if cause is None else (type(cause), cause, cause.__traceback__),
        "log_events",
        {"bee": {"event": what, **({"tag": tag} if tag else {}), **fields}},
        stack or None,
    )
    if cause is not None and detail:
        record.exc_text = detail.rstrip()
    log.handle(record)


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MOST_SHOWN} more" if len(ids) > _MOST_SHOWN else ""
    return ",".join(ids[:_MOST_SHOWN]) + more
