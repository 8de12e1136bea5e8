"""Jobs as lines of JSON that other tools can read: what `bee archive export` writes.

A line is a job with all that the store knows of it. Its body stands there as the JSON that it is,
or, if it is none, as base64; read back, it is the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from bee_core.checks import check_id, check_queue
from bee_core.errors import InvalidPayload
from bee_core.message import NO_HEADERS, ZERO, Counters, Note
from bee_core.stored import Episode, State, Stored

VERSION = 1


class Exported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. Times are seconds since the epoch, by the clock of the store it comes from."""

    v: int
    """The version of this form: 1."""
    queue: str
    id: str
    state: State
    body: msgspec.Raw | UnsetType = UNSET
    """The bytes, if they are JSON on one line; left out otherwise."""
    body64: bytes = b""
    """The bytes, if they are not."""
    headers: Mapping[str, str] = NO_HEADERS
    priority: int = 0
    key: str | None = None
    counters: Counters = ZERO
    note: Note | None = None
    history: Sequence[Episode] = ()
    sent_at: float = 0.0
    due_at: float = 0.0
    archived_at: float | None = None
    incarnation: int = 0
    awaits: int = 0
    reports_to: str | None = None
    holder: str | None = None
    leased_at: float | None = None
    leased_until: float | None = None
    progress: str | None = None
    remark: str | None = None

    @property
    def content(self) -> bytes:
        """The body as it was sent."""
        return self.body64 if isinstance(self.body, UnsetType) else bytes(self.body)

    @property
    def stored(self) -> Stored:
        """As the store showed it, for another one to take in."""
        known = {name: getattr(self, name) for name in _COMMON}
        return Stored(body=self.content, **known)


_COMMON = [name for name in Stored.__struct_fields__ if name in Exported.__struct_fields__]
_COMMON.remove("body")


def export_line(queue: str, stored: Stored) -> bytes:
    """One line, without its end."""
    body = stored.body
    is_json = _is_a_line_of_json(body)
    exported = Exported(
        v=VERSION,
        queue=queue,
        body=msgspec.Raw(body) if is_json else UNSET,
        body64=b"" if is_json else body,
        **{name: getattr(stored, name) for name in _COMMON},
    )
    return msgspec.json.encode(exported)


def import_line(line: bytes) -> Exported:
    """The same, read back; InvalidInput if it is none, or is of a name that cannot be."""
    try:
        exported = msgspec.json.decode(line, type=Exported)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidPayload(f"not a job of bee archive export: {error}") from error
    if exported.v != VERSION:
        raise InvalidPayload(
            f"a job of a newer bee archive export: version {exported.v}, here is {VERSION}"
        )
    check_queue(exported.queue)
    check_id(exported.id)
    return exported


def _is_a_line_of_json(body: bytes) -> bool:
    if b"\n" in body or b"\r" in body:
        return False
    try:
        msgspec.json.decode(body)
    except Exception:  # total, whatever the bytes
        return False
    return True
