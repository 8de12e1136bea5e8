"""Messages of another store as the arguments of `adopt.sql` and `expel.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bee_core.message import Report
from bee_core.packing import pack_detail, pack_headers
from bee_core.stored import Episode, Stored
from bee_pg.records import counts

ADOPT = (
    "%b::int8, %b::text[], %b::float8[], %b::float8[], %b::float8[], %b::int2[], %b::int4[], "
    "%b::bytea[], %b::bytea[], %b::text[], %b::int4[], %b::text[], %b::text[], %b::text[], "
    "%b::bytea[], %b::bytea[], %b::text[]::jsonb[], "
    "%b::text[], %b::text[], %b::text[], %b::bytea[], %b::bytea[]"
)
EXPEL = (
    "%b::text[], %b::int8[], %b::bool[], %b::float8[], %b::int2[], %b::int4[], %b::text[], "
    "%b::bytea[], %b::bytea[]"
)


def adoption_columns(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
) -> list[list[Any] | None]:
    """Messages, and what was reported, as the arrays of `adopt.sql`."""
    notes = [message.note for message in messages]
    times = [message.archived_at for message in messages]
    progress = [message.progress for message in messages]
    return [
        [message.id for message in messages],
        [None if time is None else float(time) for time in times],
        [float(message.sent_at) for message in messages],
        [float(message.due_at) for message in messages],
        [message.priority for message in messages],
        [count for message in messages for count in counts(message.counters)],
        [message.body for message in messages],
        [pack_headers(message.headers) or None for message in messages],
        [message.key for message in messages],
        [message.awaits or None for message in messages],
        [message.reports_to for message in messages],
        [message.holder for message in messages],
        [note.reason if note else None for note in notes],
        [pack_detail(note) if note else None for note in notes],
        [None if said is None else said.encode() for said in progress],
        [_told(message.history) if message.history else None for message in messages],
        *_report_columns(reports),
    ]


def seen_columns(messages: Sequence[Stored]) -> list[list[Any]]:
    """Messages as they were seen, as the arrays of `expel.sql`."""
    return [
        [message.id for message in messages],
        [message.incarnation for message in messages],
        [message.archived_at is not None for message in messages],
        [float(message.due_at) for message in messages],
        [message.priority for message in messages],
        [count for message in messages for count in counts(message.counters)],
        [message.key for message in messages],
        [pack_headers(message.headers) or None for message in messages],
        [message.body for message in messages],
    ]


def _report_columns(reports: Mapping[str, Sequence[Report]]) -> list[list[Any] | None]:
    told = [(id, report) for id, heard in reports.items() for report in heard]
    if not told:
        return [None] * 5
    return [
        [id for id, _ in told],
        [report.id for _, report in told],
        [report.note.reason for _, report in told],
        [pack_detail(report.note) for _, report in told],
        [report.result for _, report in told],
    ]


def _told(history: Sequence[Episode]) -> str:
    """A history as `told.sql` has it."""
    return msgspec.json.encode([_fields(episode) for episode in history]).decode()


def _fields(episode: Episode) -> tuple[Any, ...]:
    remark = None if episode.remark is None else episode.remark.encode().hex()
    return (
        episode.token,
        episode.holder,
        episode.leased_at,
        episode.ended_at,
        episode.reason,
        episode.summary,
        episode.due_at,
        remark,
    )
