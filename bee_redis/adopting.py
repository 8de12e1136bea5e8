"""Messages of another store as the packed records of `lua/layout.lua`; the server numbers them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from bee_core.message import ZERO, Note, Report
from bee_core.packing import pack_detail, pack_headers
from bee_core.stored import Episode, Stored
from bee_redis.ids import pack_id
from bee_redis.msg import pack_extras, pack_full, unnumbered_spot
from bee_redis.records import microseconds, pack_counters

Part: TypeAlias = str | int | bytes

_META = struct.Struct(">Qb")
_REST = struct.Struct(">dHHB")
_EPISODE = struct.Struct(">QdddBHHH")


def adoption_arguments(
    messages: Sequence[Stored], reports: Mapping[str, Sequence[Report]]
) -> list[Part]:
    """Messages, and what was reported, as the arguments of `adopt.lua`."""
    parts: list[Part] = [len(messages)]
    for message in messages:
        archived = "" if message.archived_at is None else microseconds(message.archived_at)
        parts += (pack_id(message.id), archived, _pack_msg(message), _pack_meta(message))
    for id, told in reports.items():
        parts += (pack_id(id), len(told))
        for report in told:
            parts += (report.id, _pack_note(report.note) + report.result)
    return parts


def seen(message: Stored) -> list[Part]:
    """A message as it was seen: nine arguments of `expel.lua`."""
    number = message.incarnation.to_bytes(8, "big")
    if message.archived_at is not None:
        return ["A", pack_id(message.id), number, 0, 0, b"", "", b"", b""]
    return [
        "L",
        pack_id(message.id),
        number,
        microseconds(message.due_at),
        message.priority,
        pack_counters(message.counters),
        message.key or "",
        pack_headers(message.headers),
        message.body,
    ]


def _pack_msg(message: Stored) -> bytes:
    return pack_full(message, microseconds(message.due_at), microseconds(message.sent_at))


def _pack_meta(message: Stored) -> bytes:
    """Nothing for a live one that has never been leased: so it stays small."""
    rest = _pack_rest(message)
    is_fresh = message.counters == ZERO and message.holder is None and message.note is None
    if is_fresh and not rest and message.archived_at is None:
        return b""
    holder = (message.holder or "").encode()
    return b"".join(
        (
            _META.pack(0, message.priority),
            pack_counters(message.counters),
            b"\1" if pack_extras(message) else b"\0",
            unnumbered_spot(microseconds(message.due_at)),
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
