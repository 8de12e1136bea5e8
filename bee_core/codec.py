"""Jobs to bytes and back.

The default is a versioned JSON envelope, `{"v":1,"job":{"type":"send_email",...}}`, read and
checked by msgspec. Decoding is total: for any bytes it returns a job or raises DecodeError.
What the sender's policy asks for does not live here; it travels in the message's headers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, Union

import msgspec
from typing_extensions import TypeForm

from bee_core.errors import DecodeError, InvalidOption, InvalidPayload, UnknownJob
from bee_core.job import members, parts, tag_of

J = TypeVar("J")

VERSION = 1
KIND_HEADER = "bee-kind"
"""Says that the body is no job of the user's, but something of bee's own."""
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


class _Envelope(msgspec.Struct, Generic[J], gc=False):
    v: int
    job: J


class _Peek(msgspec.Struct):
    """As much of an envelope as can be read without knowing its job: that is passed over unread."""

    v: int
    job: msgspec.Raw = msgspec.Raw(b"null")


class _Tags:
    """Reads the tag of a job whose class is not known, and nothing else of it."""

    def __init__(self, name: str) -> None:
        tag = ("tag", str | None, msgspec.field(name=name, default=None))
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("_Tagged", [tag]))

    def read(self, job: msgspec.Raw) -> str | None:
        try:
            tag: str | None = self._decoder.decode(job).tag  # type: ignore[attr-defined]
        except Exception:  # total, whatever the bytes
            return None
        return tag


_TAGS = _Tags("type")


class JsonCodec(Generic[J]):
    """The versioned JSON envelope, for one class or a union of `bee.Job` classes."""

    def __init__(self, form: TypeForm[J]) -> None:
        self._kinds = members(form)
        self.known = tuple(sorted(tag_of(kind) for kind in self._kinds))
        whole: Any = Union[parts(form)]  # noqa: UP007
        try:
            self._decoder = msgspec.json.Decoder(_Envelope[whole])
        except TypeError as error:
            raise InvalidOption(f"{form!r} cannot be a job type: {error}") from error
        self._encode = msgspec.json.Encoder(decimal_format="string").encode
        tag_field = _tag_field(self._kinds[0])
        self._tags = None if tag_field is None else _Tags(tag_field)
        self._compared = frozenset(kind for kind in self._kinds if _compares(kind))

    def encode(self, job: J) -> bytes:
        kind = type(job)
        if kind not in self._kinds:
            raise InvalidPayload(
                f"{kind.__name__} is not a job of this queue, which takes {', '.join(self.known)}"
            )
        try:
            body = self._encode(_Envelope(VERSION, job))
            if body.count(b"[") + body.count(b"{") > DEEPEST:  # or else it cannot be that deep
                _check(msgspec.to_builtins(job), "job", 1)
            # What a worker could not read, or would read otherwise, must not be sent.
            back = self._decoder.decode(body).job
            if kind in self._compared and back != job:
                _check(msgspec.to_builtins(job), "job", 1)
                raise InvalidPayload(f"{kind.__name__} would come back as {back!r:.200}")
        except InvalidPayload:
            raise
        except RecursionError:
            raise InvalidPayload(f"{kind.__name__} is nested too deeply") from None
        except Exception as error:  # msgspec raises whatever its inputs raise
            problem = _place(job) or f"{kind.__name__} cannot be written as JSON: {error}"
            raise InvalidPayload(problem) from error
        return body

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
        if peek.v != VERSION:
            return UnknownJob(f"envelope version {peek.v}, this program knows {VERSION}")
        tag = None if self._tags is None else self._tags.read(peek.job)
        if tag is not None and tag not in self.known:
            return UnknownJob(f"unknown job kind {tag!r}", known=self.known)
        return DecodeError(str(error), known=self.known)


def peek_kind(body: bytes) -> str | None:
    """The tag of the job in an envelope, without knowing its class; None if it cannot be read."""
    try:
        job = msgspec.json.decode(body, type=_Peek).job
    except Exception:  # total, whatever the bytes
        return None
    return _TAGS.read(job)


def kind_of(headers: Mapping[str, str], body: bytes) -> str | None:
    """What a worker has to know to handle a message; None if only its codec can tell."""
    return headers.get(KIND_HEADER) or peek_kind(body)


def encode_value(value: object) -> bytes:
    """Any value as JSON; InvalidPayload if that cannot be done, or not without loss."""
    try:
        body = _encode(value)
        if type(value) not in _PLAIN:
            _check(msgspec.to_builtins(value), "it", 1)
    except InvalidPayload:
        raise
    except RecursionError:
        raise InvalidPayload("it is nested too deeply") from None
    except Exception as error:  # msgspec raises whatever its inputs raise
        raise InvalidPayload(f"it cannot be written as JSON: {error}") from error
    return body


_encode = msgspec.json.Encoder(decimal_format="string").encode
_PLAIN = (type(None), bool, int, str)


def _compares(kind: type) -> bool:
    """Whether equality of its values means anything."""
    return vars(object)["__eq__"] is not getattr(kind, "__eq__", None)


def _tag_field(kind: type) -> str | None:
    """Where the tag of a class stands on the wire; None if it has no tag."""
    config = getattr(kind, "__struct_config__", None)
    return None if config is None or config.tag is None else str(config.tag_field)


def _place(job: object) -> str | None:
    """Which part of a job cannot be written, if that can be told."""
    try:
        _check(msgspec.to_builtins(job), "job", 1)
    except InvalidPayload as error:
        return str(error)
    except Exception:  # it is not this that is wrong with it
        return None
    return None


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
