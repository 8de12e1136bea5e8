"""Jobs to bytes and back.

The default is a versioned JSON envelope, `{"v":1,"job":{"type":"send_email",...}}`, read and
checked by msgspec. Decoding is total: for any bytes it returns a job or raises DecodeError.
What the sender's policy asks for does not live here; it travels in the message's headers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import inspect
from typing_extensions import TypeForm

from bee_core.errors import DecodeError, InvalidOption, InvalidPayload, UnknownJob
from bee_core.job import members, tag_of

J = TypeVar("J")

VERSION = 1
DEEPEST = 64
"""How deeply a payload may be nested; deeper is a mistake or an attack."""


class Codec(Protocol[J]):
    """How the jobs of a queue become bytes. Implement it to use pydantic, protobuf, encryption."""

    def encode(self, job: J) -> bytes:
        """The job as bytes; InvalidPayload if it would not come back as it is."""
        ...

    def decode(self, body: bytes) -> J:
        """The job. For whatever bytes, the only exception is DecodeError (or UnknownJob)."""
        ...


class _Envelope(msgspec.Struct, Generic[J]):
    v: int
    job: J


class _Peek(msgspec.Struct):
    """As much of an envelope as can be read without knowing its job."""

    v: int
    job: dict[str, Any]


class JsonCodec(Generic[J]):
    """The versioned JSON envelope, for one class or a union of `bee.Job` classes."""

    def __init__(self, form: TypeForm[J]) -> None:
        self._kinds = members(form)
        self.known = tuple(sorted(tag_of(kind) for kind in self._kinds))
        try:
            self._decoder = msgspec.json.Decoder(_Envelope[form])  # type: ignore[valid-type]
        except TypeError as error:
            raise InvalidOption(f"{form!r} cannot be a job type: {error}") from error
        self._encode = msgspec.json.Encoder(decimal_format="string").encode
        self._checked = frozenset(kind for kind in self._kinds if not _always_safe(kind))

    def encode(self, job: J) -> bytes:
        kind = type(job)
        if kind not in self._kinds:
            raise InvalidPayload(
                f"{kind.__name__} is not a job of this queue, which takes {', '.join(self.known)}"
            )
        try:
            if kind in self._checked:
                _check(msgspec.to_builtins(job), "job", 1)
            body = self._encode(_Envelope(VERSION, job))
            self._decoder.decode(body)  # what a worker could not read must not be sent
            return body
        except InvalidPayload:
            raise
        except RecursionError:
            raise InvalidPayload(f"{kind.__name__} is nested too deeply") from None
        except Exception as error:  # msgspec raises whatever its inputs raise
            raise InvalidPayload(f"{kind.__name__} cannot be written as JSON: {error}") from error

    def decode(self, body: bytes) -> J:
        try:
            envelope = self._decoder.decode(body)
        except Exception as error:  # total, whatever the bytes: RecursionError, UnicodeError, ...
            raise self._explain(body, error) from error
        if envelope.v != VERSION:
            raise UnknownJob(f"envelope version {envelope.v}, this program knows {VERSION}")
        job: J = envelope.job
        return job

    def _explain(self, body: bytes, error: Exception) -> DecodeError:
        """Tell a job of an unknown kind from bytes that are no job at all."""
        try:
            peek = msgspec.json.decode(body, type=_Peek)
        except Exception:
            return DecodeError(f"not a job envelope: {error}", known=self.known)
        tag = peek.job.get("type")
        if peek.v != VERSION:
            return UnknownJob(f"envelope version {peek.v}, this program knows {VERSION}")
        if isinstance(tag, str) and tag not in self.known:
            return UnknownJob(f"unknown job kind {tag!r}", known=self.known)
        return DecodeError(str(error), known=self.known)


def _check(value: object, path: str, depth: int) -> None:
    """Refuse what JSON would change or readers would choke on, naming the place."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidPayload(f"{path} is {value}, which JSON cannot hold")
        return
    items: Iterator[tuple[object, object]]
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        items = iter(enumerate(value))
    else:
        return
    if depth > DEEPEST:
        raise InvalidPayload(f"{path} is nested more than {DEEPEST} deep")
    for key, item in items:
        _check(key, f"{path} key", depth)
        _check(item, f"{path}.{key}", depth + 1)


_SAFE = (
    inspect.BoolType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.IntType,
    inspect.LiteralType,
    inspect.NoneType,
    inspect.StrType,
    inspect.TimeDeltaType,
    inspect.TimeType,
    inspect.UUIDType,
)


def _always_safe(kind: type) -> bool:
    """Whether no value of this class can hold a NaN or be nested without end.

    Then a send need not look into it. Known once per class; most job classes are.
    """

    def safe(info: inspect.Type, above: frozenset[type]) -> bool:
        match info:
            case (
                inspect.StructType(cls=cls, fields=fields)
                | inspect.DataclassType(cls=cls, fields=fields)
            ):
                return cls not in above and all(safe(f.type, above | {cls}) for f in fields)
            case inspect.UnionType(types=types):
                return all(safe(member, above) for member in types)
            case inspect.ListType(item_type=item) | inspect.SetType(item_type=item):
                return safe(item, above)
            case inspect.DictType(key_type=key, value_type=value):
                return safe(key, above) and safe(value, above)
            case inspect.TupleType(item_types=items):
                return all(safe(item, above) for item in items)
            case _:
                return isinstance(info, _SAFE)

    return safe(inspect.type_info(kind), frozenset())
