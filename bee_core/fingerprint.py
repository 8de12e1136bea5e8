"""Which failures have one cause, as far as their texts can tell.

Pure and cheap: the kind of the job, the reason, and the line that names the error, in which numbers
and ids do not count. Two jobs that failed alike have the same fingerprint, on every store and in
every process.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from bee_core.codec import kind_of
from bee_core.message import Note
from bee_core.stored import Stored

LONGEST = 200
"""Of the line that names the error, so much counts."""
_HEADER = "Traceback (most recent call last):"
_VARYING = re.compile(
    r"0[xX][0-9a-fA-F]+"
    r"|\b(?=[a-fA-F-]*[0-9])[0-9a-fA-F]{4,}(?:-[0-9a-fA-F]{4,})*\b"
    r"|[0-9]+(?:[.,:][0-9]+)*"
)


class Fingerprint(msgspec.Struct, frozen=True):
    """What failures of one cause have in common."""

    kind: str
    """That of the job; empty if it cannot be told."""
    reason: str
    error: str
    """The line that names the error, with N for what varies."""

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits, to be typed."""
        text = "\0".join((self.kind, self.reason, self.error))
        return blake2b(text.encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()


def fingerprint(stored: Stored) -> Fingerprint:
    """That of a message with a note; one without has ended as its handler decided."""
    note = stored.note
    reason = "ruled" if note is None else note.reason
    error = _VARYING.sub("N", error_of(note)[:LONGEST])
    return Fingerprint(kind_of(stored.headers, stored.body) or "", reason, error)


def error_of(note: Note | None) -> str:
    """The line of a note that names the error; empty if there is none.

    In a traceback it is the first line behind the last stack, whatever the error's own text has
    below it. In other texts it is the first line.
    """
    if note is None:
        return ""
    lines = [line.rstrip() for line in note.detail.splitlines() if line.strip()]
    if note.reason == "failed":
        frames = [n for n, line in enumerate(lines) if line.startswith(("  File ", _HEADER))]
        named = [line for line in lines[frames[-1] + 1 :] if line[0] != " "] if frames else lines
        lines = named or lines[-1:]
    line = lines[0].strip() if lines else ""
    return line.removesuffix(", at") if note.reason == "timed_out" else line  # a stack follows
