"""The default observer: what the log says of every event, with the fields beside the text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, assert_never

from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerAilment,
    BrokerRecovered,
    BrokerTrouble,
    ConcurrencyChanged,
    Event,
    EventsDropped,
    HandlerStuck,
    LoopBlocked,
    ProcessEnded,
    ProcessSlowed,
    ProcessStarted,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
    log,
)
from bee_core.logs import LONGEST_ERROR, error_line, shown
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Stalled,
    TimedOut,
    Unknown,
    reason_of,
)
from bee_core.stored import Finding

_SECONDS = {
    "in": "%.3fs",
    "again_in": "%.1fs",
    "late": "%.1fs",
    "pause": "%.1fs",
    "cpu": "%.2f",
    "lag": "%.3fs",
}
_MOST_SHOWN = 10
"""How many of the ids of running jobs stand on a line."""


def log_events(event: Event) -> None:
    """The default observer: trouble as errors and warnings, workers and jobs that they have
    interrupted as info, the rest as debug.

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
        case ConcurrencyChanged(queue=queue, size=size, cpu=cpu, lag=lag):
            _say(logging.DEBUG, "concurrency", queue=queue, size=size, cpu=cpu, lag=lag)
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
    level = logging.DEBUG
    if bad:
        level = logging.WARNING
    elif isinstance(outcome, Interrupted):
        level = logging.INFO
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
