"""Arrays as PostgreSQL takes them, each packed in one go.

psycopg can do it too, and looks at every element several times: of what a worker does for a job
that was a tenth. A null stands for None.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD = struct.Struct("!iiIii")  # dimensions, whether any is null, type of elements, count, first
_SIZE = struct.Struct("!i")
_NUMBER = struct.Struct("!iq")
_NULL = _SIZE.pack(-1)


class Packed(bytes):
    """An array in its binary form."""


class Texts(Packed):
    """text[]"""


class Numbers(Packed):
    """int8[]"""


class Blobs(Packed):
    """bytea[]"""


def texts(values: Sequence[str | None]) -> Texts:
    """Strings that UTF-8 can hold, without NUL."""
    encoded = [value.encode() for value in values if value is not None]
    if len(encoded) == len(values) and len(set(map(len, encoded))) == 1:  # as bee's own ids are
        size = _SIZE.pack(len(encoded[0]))
        return Texts(_pack("text", len(values), [size, size.join(encoded)]))
    found = [None if value is None else value.encode() for value in values]
    return Texts(_pack("text", len(values), _elements(found)))


def blobs(values: Sequence[bytes | None]) -> Blobs:
    return Blobs(_pack("bytea", len(values), _elements(values)))


def numbers(values: Sequence[int | None]) -> Numbers:
    """Whole numbers of at most 64 bits."""
    if None in values:
        found = (_NULL if value is None else _NUMBER.pack(8, value) for value in values)
        return Numbers(_pack("int8", len(values), found))
    return Numbers(_pack("int8", len(values), map(_NUMBER.pack, repeat(8), values)))


def _elements(values: Sequence[bytes | None]) -> list[bytes]:
    found: list[bytes] = []
    for value in values:
        if value is None:
            found.append(_NULL)
        else:
            found += (_SIZE.pack(len(value)), value)
    return found


def _pack(kind: str, count: int, elements: Iterable[bytes]) -> bytes:
    """Elements may be null whether or not it is said that any is."""
    head = _HEAD.pack(1 if count else 0, 1, adapters.types[kind].oid, count, 1)
    return b"".join([head if count else head[:12], *elements])


class _AsItIs(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed) -> Buffer:
        return obj


def _register(kind: type[Packed], element: str) -> None:
    oid = adapters.types[element].array_oid
    adapters.register_dumper(kind, type(f"{kind.__name__}Dumper", (_AsItIs,), {"oid": oid}))


_register(Texts, "text")
_register(Numbers, "int8")
_register(Blobs, "bytea")
