"""Which function handles which job, and what reports a job that has failed for good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from bee_core.codec import KIND_HEADER
from bee_core.delivery import Call
from bee_core.errors import DecodeError, InvalidOption, NoHandler, UnknownJob
from bee_core.job import members, tag_of
from bee_core.message import NO_HEADERS, Counters, Draft, Lease, Note
from bee_core.queue import Queue
from bee_core.schedule import Schedule
from bee_core.spread import fresh_id
from bee_core.strategy import Backoff, Policy, Repeat, Rules, resolve
from bee_core.ticks import COME_TO, SCHEDULE, SCHEDULE_RULES, Declared, declare, due, message_id

J = TypeVar("J")

FAILURE = "failure"
FAILURE_RULES: Rules = resolve(
    Policy(
        on_error=Repeat(100),
        on_timeout=Repeat(100),
        on_stall=Repeat(100),
        backoff=Backoff(min=10.0, max=900.0),
    )
)
"""Failure jobs have a policy of their own, and their own failure is archived, never reported."""


class Failure(msgspec.Struct, Generic[J], frozen=True, kw_only=True):
    """What a failure handler gets: a job that has failed for good, and why."""

    id: str
    job: J | None
    """The job, or None if its bytes could not be decoded."""
    body: bytes
    headers: Mapping[str, str]
    counters: Counters
    note: Note
    """`note.reason` says how it failed, `note.detail` holds the error with its traceback."""


class _Report(msgspec.Struct, frozen=True):
    """A failure as it travels."""

    id: str
    body: bytes
    headers: dict[str, str]
    counters: Counters
    note: Note


class Handlers(Generic[J]):
    """The functions that handle the jobs of one queue."""

    def __init__(self, queue: Queue[J]) -> None:
        self._queue = queue
        self._whole: Call | None = None
        self._by_class: dict[type, Call] = {}
        self._failure: Call | None = None
        self._known: dict[type, tuple[str, Rules, Call]] = {}  # of jobs without headers,
        self._known_policy = queue.policy  # while the queue's policy was this
        self.schedules: dict[str, Declared] = {}
        """By the id of the message that keeps it."""

    def handle_all(self, function: Callable[..., Any]) -> None:
        """One function for every job of the queue."""
        if self._whole is not None or self._by_class:
            raise InvalidOption(f"queue {self._queue.name!r} has its handler already")
        self._whole = Call(function)

    def handle(self, kind: type, function: Callable[..., Any], *, process: bool = False) -> None:
        """A function for one job class."""
        kinds = members(self._queue.form)
        if kind not in kinds:
            known = ", ".join(k.__name__ for k in kinds)
            raise InvalidOption(
                f"{kind.__name__} is not a job of queue {self._queue.name!r}, which takes {known}"
            )
        if self._whole is not None or kind in self._by_class:
            raise InvalidOption(f"{kind.__name__} has its handler already")
        self._by_class[kind] = Call(function, process=process)

    def handle_failures(self, function: Callable[..., Any]) -> None:
        """A function for jobs that have failed for good."""
        if self._failure is not None:
            raise InvalidOption(f"queue {self._queue.name!r} has its failure handler already")
        self._failure = Call(function)

    def schedule(self, schedule: Schedule[J]) -> None:
        """A job that is sent again and again, by whoever works on this queue."""
        if not isinstance(schedule, Schedule):
            raise InvalidOption(f"schedules are of the class Schedule; not {schedule!r}")
        id = message_id(schedule.name)
        if id in self.schedules:
            raise InvalidOption(
                f"queue {self._queue.name!r} has a schedule {schedule.name!r} already"
            )
        self.schedules[id] = declare(schedule, self._queue)

    @property
    def any(self) -> bool:
        """Whether anything is handled at all."""
        return self._whole is not None or bool(self._by_class)

    @property
    def kinds(self) -> list[str]:
        """What can be handled here: tags of jobs, and kinds of bee's own."""
        own = [FAILURE] * (self._failure is not None) + [SCHEDULE] * bool(self.schedules)
        handled = members(self._queue.form) if self._whole is not None else self._by_class
        return sorted(tag_of(kind) for kind in handled) + own

    @property
    def rules(self) -> list[Rules]:
        """Those of each job class, for jobs that are sent without a policy of their own."""
        return [self._queue.rules(kind, NO_HEADERS) for kind in members(self._queue.form)]

    def check(self) -> None:
        """Raise NoHandler unless every job class of the queue is handled."""
        if self._whole is not None:
            return
        missing = [k.__name__ for k in members(self._queue.form) if k not in self._by_class]
        if missing:
            raise NoHandler(
                f"queue {self._queue.name!r}: nobody handles {', '.join(missing)}. "
                "Use @queue.handler for all, or @queue.on(JobClass) for each."
            )

    def open(self, lease: Lease) -> tuple[Any, str, Rules, Call]:
        """The job in a lease, its tag, its rules and who handles it; or DecodeError."""
        headers = lease.headers
        if headers and KIND_HEADER in headers:
            return self._open_own(lease, headers[KIND_HEADER])
        job = self._queue.decode(lease.receipt.id, lease.body)
        kind = type(job)
        if self._known_policy is not self._queue.policy:
            self._known, self._known_policy = {}, self._queue.policy
        found = None if headers else self._known.get(kind)
        if found is None:
            found = self._find(kind, lease)
            if not headers:
                self._known[kind] = found
        tag, rules, call = found
        return job, tag, rules, call

    def _find(self, kind: type, lease: Lease) -> tuple[str, Rules, Call]:
        """Tag, rules and handler of a job of this class that was sent so."""
        name, id = self._queue.name, lease.receipt.id
        try:
            rules = self._queue.rules(kind, lease.headers)
        except DecodeError as error:
            raise error.at(name, id) from error
        call = self._whole or self._by_class.get(kind)
        if call is None:
            raise UnknownJob(f"nobody handles {kind.__name__}", queue=name, id=id)
        return tag_of(kind), rules, call

    def report(self, lease: Lease, counters: Counters, note: Note) -> tuple[Draft, ...]:
        """The failure job to send as this one ends, if anybody wants to hear of it."""
        if self._failure is None or KIND_HEADER in lease.headers:
            return ()
        report = _Report(lease.receipt.id, lease.body, dict(lease.headers), counters, note)
        id = fresh_id(self._queue.broker, lease.receipt.id)
        return (Draft(id, msgspec.json.encode(report), headers={KIND_HEADER: FAILURE}),)

    def _open_own(self, lease: Lease, kind: str) -> tuple[Any, str, Rules, Call]:
        """What is in a message of bee's own."""
        id, name = lease.receipt.id, self._queue.name
        if kind == SCHEDULE and id in self.schedules:
            try:
                return due(self.schedules[id], lease), SCHEDULE, SCHEDULE_RULES, COME_TO
            except DecodeError as error:
                raise error.at(name, id) from error
        if kind == SCHEDULE:
            raise UnknownJob(f"no schedule {id!r} is declared here", queue=name, id=id)
        if kind != FAILURE or self._failure is None:
            raise UnknownJob(f"no handler here for bee-kind {kind!r}", queue=name, id=id)
        try:
            report = msgspec.json.decode(lease.body, type=_Report)
        except Exception as error:
            raise DecodeError(f"not a failure report: {error}", queue=name, id=id) from error
        try:
            job: J | None = self._queue.decode(report.id, report.body)
        except DecodeError:
            job = None
        failure: Failure[J] = Failure(
            id=report.id,
            job=job,
            body=report.body,
            headers=report.headers,
            counters=report.counters,
            note=report.note,
        )
        return failure, FAILURE, FAILURE_RULES, self._failure
