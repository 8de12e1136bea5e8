"""Headers, rules and notes as bytes and letters, for stores that keep nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec

from bee_core.errors import InvalidPayload
from bee_core.message import KEEP, NO_HEADERS, Draft, IfTaken, Keep, Note, Reject, Update

_RUN_AT = {"always": "a", "never": "n", "if_later": "l", "if_earlier": "e"}
_decode = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def is_plain(draft: Draft) -> bool:
    """Whether id and body say all there is to say of a draft."""
    return not (
        draft.if_taken is not KEEP
        or draft.delay
        or draft.priority
        or draft.headers
        or draft.key is not None
        or draft.awaits
        or draft.reports_to is not None
    )


def pack_rule(if_taken: IfTaken) -> str:
    """K keep, R reject; an update in four letters.

    Whether the payload is replaced (1, 0); the time (a, n, l, e); the policy (1, 0); and whether
    the counters are reset (1, 0).
    """
    match if_taken:
        case Keep():
            return "K"
        case Reject():
            return "R"
        case Update() as update:
            payload, policy, resets = (
                "01"[flag] for flag in (update.payload, update.policy, update.resets)
            )
            return payload + _RUN_AT[update.run_at] + policy + resets
        case _:
            assert_never(if_taken)


def pack_headers(headers: Mapping[str, str]) -> bytes:
    """Headers as JSON; empty if there are none."""
    if not headers:
        return b""
    try:
        return _encode(headers if type(headers) is dict else dict(headers))
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"headers that UTF-8 cannot hold: {error}") from error


def unpack_headers(packed: bytes | None) -> Mapping[str, str]:
    """What `pack_headers` packed.

    Empty if somebody has spoilt them by hand: an error would hit all that is leased with it.
    """
    if not packed:
        return NO_HEADERS
    try:
        return _decode(packed)
    except msgspec.DecodeError:
        return NO_HEADERS


def pack_detail(note: Note) -> bytes:
    """The detail of a note; what UTF-8 cannot hold is escaped."""
    return note.detail.encode("utf-8", "backslashreplace")
