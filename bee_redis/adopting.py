"""Messages of another store as the packed records of `lua/layout.lua`; the server numbers them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from bee_core.message import ZERO, Note, Report
from bee_core.packing import pack_detail, pack_headers
from bee_core.stored import Episode, Stored
from bee_redis.pages import Part
from bee_redis.records import microseconds, pack_counters, pack_extras

_MSG = struct.Struct(">QddbIH")
_META = struct.Struct(">QdQb")
_REST = struct.Struct(">dHHB")
_EPISODE = struct.Struct(">QdddBHHH")


def adoption_units(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
) -> list[list[Part]]:
    """What `adopt.lua` takes: of each message, and of the reports to others, the arguments."""
    told = _by_reader(messages, reports)
    units: list[list[Part]] = []
    for n, message in enumerate(messages):
        archived = "" if message.archived_at is None else microseconds(message.archived_at)
        records = (archived, _pack_msg(message), _pack_meta(message))
        units.append([message.id, *records, *_pack_reports(told.get(n, ()))])
    here = {message.id for message in messages}
    for id in reports.keys() - here:
        units.append([id, "", b"", b"", *_pack_reports(reports[id])])
    return units


def _by_reader(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
) -> dict[int, Sequence[Report]]:
    """Reports by the position of who reads them: of several with one id the first that awaits any.

    If none does, they come with the last one.
    """
    readers: dict[str, int] = {}
    for n, message in enumerate(messages):
        if message.id in reports:
            before = readers.get(message.id)
            if before is None or not messages[before].awaits:
                readers[message.id] = n
    return {n: reports[id] for id, n in readers.items()}


def expulsion(seen: Stored) -> list[Part]:
    """A message as it was seen: nine arguments of `expel.lua`."""
    number = seen.incarnation.to_bytes(8, "big")
    if seen.archived_at is not None:
        return ["A", seen.id, number, 0, 0, b"", "", b"", b""]
    return [
        "L",
        seen.id,
        number,
        microseconds(seen.due_at),
        seen.priority,
        pack_counters(seen.counters),
        seen.key or "",
        pack_headers(seen.headers),
        seen.body,
    ]


def _pack_msg(message: Stored) -> bytes:
    extras, headers = pack_extras(message), pack_headers(message.headers)
    sent_at, due = microseconds(message.sent_at), microseconds(message.due_at)
    head = _MSG.pack(0, sent_at, due, message.priority, len(headers), len(extras))
    return head + extras + headers + message.body


def _pack_meta(message: Stored) -> bytes:
    """Nothing for a live one that has never been leased: so it stays small."""
    rest = _pack_rest(message)
    is_fresh = message.counters == ZERO and message.holder is None and message.note is None
    if is_fresh and not rest and message.archived_at is None:
        return b""
    holder = (message.holder or "").encode()
    return b"".join(
        (
            _META.pack(0, microseconds(message.due_at), 0, message.priority),
            pack_counters(message.counters),
            b"\1" if pack_extras(message) else b"\0",
            len(holder).to_bytes(2, "big") + holder,
            _pack_note(message.note),
            rest,
        )
    )


def _pack_note(note: Note | None) -> bytes:
    reason, detail = (note.reason.encode(), pack_detail(note)) if note else (b"", b"")
    return b"".join((bytes([len(reason)]), reason, len(detail).to_bytes(4, "big"), detail))


def _pack_rest(message: Stored) -> bytes:
    """Progress and history, as `lua/history.lua` has them."""
    progress = (message.progress or "").encode()
    if not progress and not message.history:
        return b""
    head = _REST.pack(0, len(progress), 0, len(message.history))
    return head + progress + b"".join(map(_pack_episode, message.history))


def _pack_episode(episode: Episode) -> bytes:
    texts = (episode.reason, episode.holder, episode.summary, episode.remark or "")
    packed = [text.encode() for text in texts]
    times = (episode.leased_at, episode.ended_at, episode.due_at or 0.0)
    sizes = map(len, packed)
    return _EPISODE.pack(episode.token, *map(microseconds, times), *sizes) + b"".join(packed)


def _pack_reports(reports: Sequence[Report]) -> list[Part]:
    """How many, and of each the id, and note and result."""
    parts: list[Part] = [len(reports)]
    for report in reports:
        parts += (report.id, _pack_note(report.note) + report.result)
    return parts
