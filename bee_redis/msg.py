"""The record of a message as it was sent, packed as `lua/layout.lua` says."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from bee_core.message import NO_HEADERS, Draft
from bee_core.packing import pack_headers, unpack_headers
from bee_core.stored import Stored
from bee_core.text import readable
from bee_redis.ids import pack_id, unpack_id

_NEAR = struct.Struct(">QI")
_FAR = struct.Struct(">QBQ")
_MIDDLE = 1 << 31
_FULL = struct.Struct(">bdIH")
_EXTRAS = struct.Struct(">IH")


class Message(NamedTuple):
    """What a msg says. Times are microseconds."""

    due: int
    number: int
    body: bytes
    sent_at: float
    priority: int = 0
    headers: Mapping[str, str] = NO_HEADERS
    awaits: int = 0
    key: str | None = None
    reports_to: str | None = None


def read_spot(record: bytes, at: int) -> tuple[int, int, int]:
    """Due, number, and where the spot ends."""
    if 0 < record[at + 8] < 255:
        due, apart = _NEAR.unpack_from(record, at)
        return due, due + apart - _MIDDLE, at + _NEAR.size
    due, _, number = _FAR.unpack_from(record, at)
    return due, number, at + _FAR.size


def unnumbered_spot(due: int) -> bytes:
    """The spot of a message that the server is to number."""
    return _FAR.pack(due, 0, 0)


def pack_full(message: Stored, due: int, sent_at: int) -> bytes:
    """A msg that the server is to number."""
    extras, headers = pack_extras(message), pack_headers(message.headers)
    head = _FULL.pack(message.priority, sent_at, len(headers), len(extras))
    return b"".join((unnumbered_spot(due), b"\1", head, extras, headers, message.body))


def read_msg(msg: bytes) -> Message:
    """All that it says."""
    due, number, at = read_spot(msg, 0)
    if not msg[at]:
        return Message(due, number, msg[at + 1 :], due)
    priority, sent_at, size, extra = _FULL.unpack_from(msg, at + 1)
    start = at + 1 + _FULL.size
    end = start + extra + size
    headers = unpack_headers(msg[start + extra : end]) if size else NO_HEADERS
    extras = _read_extras(msg[start : start + extra]) if extra else (0, None, None)
    return Message(due, number, msg[end:], sent_at, priority, headers, *extras)


def pack_extras(draft: Draft | Stored) -> bytes:
    """Key, awaits and reports_to; empty if there is none of them."""
    if draft.key is None and draft.reports_to is None and not draft.awaits:
        return b""
    key = (draft.key or "").encode()
    reports_to = b"" if draft.reports_to is None else pack_id(draft.reports_to)
    return _EXTRAS.pack(draft.awaits, len(key)) + key + reports_to


def _read_extras(extras: bytes) -> tuple[int, str | None, str | None]:
    awaits, length = _EXTRAS.unpack_from(extras)
    end = _EXTRAS.size + length
    key, reports_to = readable(extras[_EXTRAS.size : end]), extras[end:]
    return awaits, key or None, unpack_id(reports_to) if reports_to else None
