"""Redis' protocol, both versions: commands into bytes, and bytes into replies.

Nothing here waits or reads: whatever has come is taken, in pieces of any size, and what is not
whole yet is kept. See https://redis.io/docs/latest/develop/reference/protocol-spec/.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from redis import exceptions as redis_errors

Part: TypeAlias = bytes | str | int | float
Reply: TypeAlias = Any
"""bytes, int, float, bool, None, an error that is not raised yet, or a list of these."""

_SIMPLE, _ERROR, _NUMBER, _BULK, _ARRAY = b"+-:$*"
_NULL, _BOOLEAN, _DOUBLE, _BIG, _BULK_ERROR, _VERBATIM = b"_#,(!="
_MAP, _SET, _PUSH, _ATTRIBUTE = b"%~>|"
_WITH_LENGTH = (_BULK, _VERBATIM, _BULK_ERROR)
_PER_ENTRY = {_ARRAY: 1, _SET: 1, _PUSH: 1, _MAP: 2, _ATTRIBUTE: 2}
"""How many values stand in an entry of what has several."""
_ERRORS: dict[str, type[redis_errors.RedisError]] = {
    "ERR": redis_errors.ResponseError,
    "NOSCRIPT": redis_errors.NoScriptError,
    "OOM": redis_errors.OutOfMemoryError,
    "READONLY": redis_errors.ReadOnlyError,
    "NOPERM": redis_errors.NoPermissionError,
    "MOVED": redis_errors.MovedError,
    "ASK": redis_errors.AskError,
    "TRYAGAIN": redis_errors.TryAgainError,
    "CLUSTERDOWN": redis_errors.ClusterDownError,
    "MASTERDOWN": redis_errors.MasterDownError,
    "LOADING": redis_errors.BusyLoadingError,
    "NOAUTH": redis_errors.AuthenticationError,
    "WRONGPASS": redis_errors.AuthenticationError,
}
"""Those that a call may meet, and that something is made of; any other keeps its first word."""
_UNASKED = (_PUSH, _ATTRIBUTE)
"""What is beside the answer."""


def pack(*parts: Part) -> bytes:
    """A command as the server takes it."""
    return b"*%d\r\n%b" % (len(parts), pack_parts(parts))


def pack_parts(parts: tuple[Part, ...]) -> bytes:
    """Some of the parts of a command, without their number."""
    found = [part if type(part) is bytes else as_bytes(part) for part in parts]
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in found])


def as_bytes(part: Part) -> bytes:
    """A part as the server takes it."""
    if isinstance(part, bytes):
        return part
    if isinstance(part, str):
        return part.encode()
    return b"%d" % part if isinstance(part, int) else repr(part).encode()


class Replies:
    """Replies out of bytes, each as soon as its last byte has come."""

    def __init__(self) -> None:
        self._rest = bytearray()  # the beginning of what is not whole yet
        self._needed = 0  # bytes that it takes at least
        self._open: list[tuple[int, int, list[Reply]]] = []  # kind, length, values so far

    def feed(self, data: bytes) -> list[Reply]:
        """Take what has come; the replies that are whole with it.

        Raises InvalidResponse if it is no reply at all; nothing can be made of what follows, then.
        """
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        try:
            found, at = self._read(data)
        except ValueError as error:
            message = f"the server does not speak Redis' protocol: {error}"
            raise redis_errors.InvalidResponse(message) from error
        if at < len(data):
            self._rest += data[at:]
        return found

    def _read(self, data: bytes) -> tuple[list[Reply], int]:
        """The replies that are whole, and where the rest begins."""
        found: list[Reply] = []
        at, self._needed = 0, 0
        while (end := data.find(b"\r\n", at)) >= 0:
            kind, following = data[at], end + 2
            value: Reply = None
            if kind in _WITH_LENGTH:
                if (length := int(data[at + 1 : end])) >= 0:
                    start, following = following, following + length + 2
                    if following > len(data):
                        self._needed = following - at
                        break
                    value = data[start : start + length]
                    if kind != _BULK:
                        value = value[4:] if kind == _VERBATIM else _error(value)
            elif kind in _PER_ENTRY:
                if (length := int(data[at + 1 : end]) * _PER_ENTRY[kind]) > 0:
                    self._open.append((kind, length, []))
                    at = following
                    continue
                value = [] if length == 0 else None
            else:
                value = _read_line(kind, data[at + 1 : end])
            at = following
            if self._open or kind in _UNASKED:
                self._add(kind, value, found)
            else:
                found.append(value)
        return found, at

    def _add(self, kind: int, value: Reply, found: list[Reply]) -> None:
        """A value belongs to what is open, which may be whole with it, or is a reply itself."""
        while self._open:
            if kind not in _UNASKED:
                self._open[-1][2].append(value)
            kind, length, values = self._open[-1]
            if len(values) < length:
                return
            self._open.pop()
            value = values
        if kind not in _UNASKED:
            found.append(value)


def _read_line(kind: int, line: bytes) -> Reply:
    if kind in (_NUMBER, _BIG):
        return int(line)
    if kind == _SIMPLE:
        return line
    if kind == _ERROR:
        return _error(line)
    if kind == _NULL:
        return None
    if kind == _BOOLEAN:
        return line == b"t"
    if kind == _DOUBLE:
        return float(line)
    raise ValueError(f"a reply that begins with {bytes([kind])!r}")


def _error(text: bytes) -> Exception:
    """The client library's exception, as it would have raised it itself: without the first word."""
    code, _, message = (whole := text.decode("utf-8", "replace")).partition(" ")
    kind = _ERRORS.get(code)
    return kind(message) if kind else redis_errors.ResponseError(whole)
