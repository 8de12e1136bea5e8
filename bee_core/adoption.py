"""What `adopt` and `expel` are given: checked by one rule for all backends, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from bee_core.checks import (
    LONGEST_PROGRESS,
    LONGEST_REMARK,
    LONGEST_SUMMARY,
    check_draft,
    check_holder,
    check_id,
    check_said,
    check_text,
    check_whole,
)
from bee_core.errors import InvalidOption
from bee_core.message import NO_REPORTS, Counters, Draft, Note, Reason, Report
from bee_core.stored import HISTORY, Episode, State, Stored

MOST = 1000
"""Messages that a store takes in or expels at once, and reports."""
LARGEST = 8 * 1024 * 1024
"""Bytes of bodies and results in one batch; a larger message has one for itself."""
LAST = 250_000_000_000.0
"""The end of the year 9891: no time that any store can hold is later."""
MOST_COUNTED = 2**31 - 1
GREATEST_TOKEN = 2**52
_REASONS = frozenset(get_args(Reason))
_WITHOUT_A_LEASE = (State.READY, State.DELAYED, State.ARCHIVED)


def check_adopted(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]], beyond: int
) -> None:
    """Raise an InvalidInput that says what is wrong with the arguments of `adopt`, if anything is.

    Whatever one store shows, another can take in; so what is wrong is a mistake of the caller's.
    """
    for message in messages:
        _check_lease(message)
        _check_message(message)
    for id, told in reports.items():
        check_id(id)
        for report in told:
            check_id(report.id)
            _check_note(report.note)
            if not isinstance(report.result, bytes):
                raise InvalidOption(f"a result is bytes, not {type(report.result).__name__}")
    if check_whole(beyond, "beyond", least=0) > GREATEST_TOKEN:
        raise InvalidOption(f"beyond must be at most {GREATEST_TOKEN}, not {beyond}")


def check_expelled(messages: Sequence[Stored]) -> None:
    """Raise an InvalidInput that says what is wrong with what is to be expelled, if anything is."""
    for message in messages:
        _check_lease(message)
        _check_message(message)
        if not 0 <= check_whole(message.incarnation, "incarnation", least=0) < 2**63:
            raise InvalidOption(f"no message has the incarnation {message.incarnation}")


def in_arrival(messages: Sequence[Stored]) -> list[int]:
    """The positions of messages, in the order in which they are to be numbered.

    Of archived ones `scan` shows the newest first, so the last one of those is the first to come.
    """
    live = [n for n, message in enumerate(messages) if message.archived_at is None]
    kept = [n for n, message in enumerate(messages) if message.archived_at is not None]
    return live + kept[::-1]


class Batch(NamedTuple):
    """As much as a store should do at once: positions of messages, and reports by id."""

    positions: list[int]
    reports: dict[str, Sequence[Report]]


def batches(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]] = NO_REPORTS
) -> list[Batch]:
    """All of it, in the order of arrival.

    What was reported to a message comes along with it; if that is a lot, the rest comes behind it.
    """
    found: list[Batch] = []
    size = told = 0
    for unit in _units(messages, reports):
        heard = [report for some in unit.reports.values() for report in some]
        more = sum(len(messages[n].body) for n in unit.positions)
        more += sum(len(report.result) for report in heard)
        is_full = not found or len(found[-1].positions) == MOST or told + len(heard) > MOST
        if is_full or size + more > LARGEST:
            found.append(Batch([], {}))
            size = told = 0
        found[-1].positions.extend(unit.positions)
        found[-1].reports.update(unit.reports)
        size, told = size + more, told + len(heard)
    return found


def _units(messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]) -> Iterator[Batch]:
    """What stays together: a message and the first of its reports, or up to MOST further ones."""
    order = in_arrival(messages)
    readers = _readers(messages, order, reports)
    for n in order:
        id = messages[n].id
        heard = reports[id] if readers.get(id) == n else ()
        yield Batch([n], {id: heard[:MOST]} if heard else {})
        yield from _parts(id, heard[MOST:])
    for id, heard in reports.items():
        if id not in readers:
            yield from _parts(id, heard)


def _parts(id: str, heard: Sequence[Report]) -> Iterator[Batch]:
    for start in range(0, len(heard), MOST):
        yield Batch([], {id: heard[start : start + MOST]})


def _readers(
    messages: Sequence[Stored], order: Sequence[int], reports: Mapping[str, Sequence[Report]]
) -> dict[str, int]:
    """Who reads the reports to an id: of several messages with that id the first that awaits any.

    If none of them does, what was reported comes with the last.
    """
    readers: dict[str, int] = {}
    for n in order:
        id = messages[n].id
        if id in reports and (id not in readers or not messages[readers[id]].awaits):
            readers[id] = n
    return readers


def _check_lease(message: Stored) -> None:
    if message.state not in _WITHOUT_A_LEASE:
        raise InvalidOption(
            f"{message.id!r} is {message.state.value}: only ready, delayed and archived messages "
            "can be adopted or expelled"
        )
    if any(x is not None for x in (message.token, message.leased_at, message.leased_until)):
        raise InvalidOption(
            f"{message.id!r} has a lease that ran out: settle it, or let it be taken over, first"
        )


def _check_message(message: Stored) -> None:
    check_draft(
        Draft(
            message.id,
            message.body,
            priority=message.priority,
            headers=message.headers,
            key=message.key,
            awaits=message.awaits,
            reports_to=message.reports_to,
        )
    )
    whose = f"of {message.id!r}"
    _check_time(message.sent_at, f"sent_at {whose}")
    _check_time(message.due_at, f"due_at {whose}")
    if (message.state is State.ARCHIVED) != (message.archived_at is not None):
        raise InvalidOption(f"archived_at {whose} is set if, and only if, it is archived")
    if message.archived_at is not None:
        _check_time(message.archived_at, f"archived_at {whose}")
    _check_counters(message.counters, whose)
    if message.holder is not None:
        check_holder(message.holder)
    if message.note is not None:
        _check_note(message.note)
    if message.progress is not None:
        check_said(message.progress, f"progress {whose}", LONGEST_PROGRESS)
    if len(message.history) > HISTORY:
        raise InvalidOption(f"the history {whose} has more than {HISTORY} episodes")
    for episode in message.history:
        _check_episode(episode, whose)


def _check_episode(episode: Episode, whose: str) -> None:
    if not 0 <= check_whole(episode.token, f"a token {whose}", least=0) < 2**63:
        raise InvalidOption(f"no lease {whose} can have had the token {episode.token}")
    check_holder(episode.holder)
    _check_time(episode.leased_at, f"leased_at {whose}")
    _check_time(episode.ended_at, f"ended_at {whose}")
    if episode.due_at is not None:
        _check_time(episode.due_at, f"due_at in the history {whose}")
    if episode.summary:
        check_text(episode.summary, "summary", longest=LONGEST_SUMMARY)
    if episode.remark is not None:
        check_said(episode.remark, f"the remark {whose}", LONGEST_REMARK)
    _check_note(Note(episode.reason))


def _check_counters(counters: Counters, whose: str) -> None:
    for name in Counters.__struct_fields__:
        if check_whole(getattr(counters, name), f"{name} {whose}", least=0) > MOST_COUNTED:
            raise InvalidOption(f"{name} {whose} must be at most {MOST_COUNTED}")


def _check_note(note: Note) -> None:
    if note.reason not in _REASONS:
        raise InvalidOption(f"{note.reason!r:.100} is not the reason of any note")
    if not isinstance(note.detail, str):
        raise InvalidOption(f"the detail of a note is text, not {type(note.detail).__name__}")


def _check_time(time: float, name: str) -> None:
    if type(time) not in (int, float) or not 0 <= time <= LAST:  # also refuses NaN
        raise InvalidOption(f"{name} must be seconds since the epoch, not {time!r}")
