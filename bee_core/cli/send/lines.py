"""Jobs as people and programs write them down: JSON, a line each.

A line is a job, `{"type": "send_email", "to": "ada"}`, or says more than that about it:
`{"job": {...}, "id": "a", "delay": "5m"}`. It is the second if it has a `job` and no `type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from bee_core.cli.common.errors import WrongUse
from bee_core.cli.common.units import duration
from bee_core.codec import VERSION, JsonCodec
from bee_core.errors import BeeError, DecodeError, InvalidInput, UnknownJob
from bee_core.hive_queue import HiveQueue
from bee_core.job import members
from bee_core.message import KEEP, NO_HEADERS, Draft, IfTaken, Reject, Update

Word: TypeAlias = Literal["keep", "reject", "update"]
IF_TAKEN: Mapping[str, IfTaken] = {"keep": KEEP, "reject": Reject(), "update": Update()}


class BadLine(BeeError):
    """A line that is no job of the queue."""


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every line that does not say otherwise."""

    id: str | None = None
    id_from: str | None = None
    """The name of a field whose value is the id."""
    delay: float = 0.0
    priority: int = 0
    key: str | None = None
    if_taken: Word = "keep"


_PLAIN = Common()


class _Enveloped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    job: msgspec.Raw
    id: str | None = None
    delay: float | str | None = None
    priority: int | None = None
    key: str | None = None
    if_taken: Word | None = None
    headers: dict[str, str] | None = None


class Reader:
    """Makes messages of one queue from lines."""

    def __init__(self, queue: HiveQueue[Any], common: Common = _PLAIN) -> None:
        if not isinstance(queue.codec, JsonCodec):
            raise WrongUse(
                f"queue {queue.name!r} has a codec of its own, {type(queue.codec).__name__}: "
                "its jobs cannot be given as JSON. Send them from Python"
            )
        self._queue = queue
        self._common = common
        self._fields = {kind: _fields(kind) for kind in members(queue.form)}

    def draft(self, line: bytes) -> Draft:
        """The message, checked as any that is sent; BadLine says what is wrong with it."""
        try:
            return self._draft(line)
        except UnknownJob as error:
            raise BadLine(str(error)) from error
        except (DecodeError, msgspec.MsgspecError) as error:
            text = error.problem if isinstance(error, DecodeError) else str(error)
            raise BadLine(self._told(text)) from error
        except UnicodeDecodeError as error:
            raise BadLine(f"it is not UTF-8: {error}") from error
        except (InvalidInput, RecursionError) as error:
            raise BadLine(str(error)) from error

    def _draft(self, line: bytes) -> Draft:
        found = msgspec.json.decode(line)
        told = _Enveloped(msgspec.Raw(line))
        if isinstance(found, dict) and "job" in found and "type" not in found:
            told, found = msgspec.json.decode(line, type=_Enveloped), found["job"]
        job = self._queue.codec.decode(b'{"v":%d,"job":%b}' % (VERSION, bytes(told.job)))
        self._check_fields(job, found)
        common = self._common
        id = common.id if told.id is None else told.id
        if id is None and common.id_from is not None:
            id = _id(found, common.id_from)
        return self._queue.draft(
            job,
            id=id,
            delay=common.delay if told.delay is None else duration(told.delay),
            priority=common.priority if told.priority is None else told.priority,
            key=common.key if told.key is None else told.key,
            if_taken=IF_TAKEN[told.if_taken or common.if_taken],
            headers=told.headers or NO_HEADERS,
        )

    def _check_fields(self, job: object, found: object) -> None:
        """A worker ignores fields that it does not know; who types one has mistyped it."""
        known = self._fields.get(type(job), ())
        unknown = [name for name in found if name not in known] if isinstance(found, dict) else []
        if known and unknown:
            raise InvalidInput(f"unknown field {unknown[0]!r}; known: {', '.join(known)}")

    def _told(self, text: str) -> str:
        """msgspec's own words, with the place in front and the kinds behind."""
        problem, _, place = text.removeprefix("not a job envelope: ").partition(" - at `$")
        if field := place.rstrip("`").removeprefix(".job").removeprefix("."):
            return f"field {field}: {problem}"
        if "unknown field" in problem:
            return f"{problem} beside the job; known: {', '.join(_Enveloped.__struct_fields__)}"
        if "`type`" in problem:
            known = getattr(self._queue.codec, "known", ())
            return f'{problem}: say which kind, {{"type": ...}}; known: {", ".join(known)}'
        return problem


def _id(found: object, field: str) -> str:
    value = found.get(field) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(f"field {field!r} is to be the id, but is {value!r:.80}")
    return str(value)


def _fields(kind: type) -> tuple[str, ...]:
    """The names of a struct's fields on the wire, its tag first; none if they have no names."""
    config = getattr(kind, "__struct_config__", None)
    if config is None or config.array_like:
        return ()
    names: tuple[str, ...] = getattr(kind, "__struct_encode_fields__", ())
    return ("type" if config.tag_field is None else str(config.tag_field), *names)
