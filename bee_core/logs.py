"""Log lines that people and programs can read, and whose job they are about.

Two formatters for `logging`, for bee's records and everybody else's: `KeyValueFormatter` for
people, `JsonFormatter` for machines. Both add the job that was being handled when a record was
made. Nothing in a record can forge a second one: what is not printable is escaped.

A library sets up no logging: `configure_logging` is for programs, and bee's own command calls it.
What bee says, and when, is in `journal.py`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from bee_core.errors import InvalidOption
from bee_core.message import Lease, attempt_number
from bee_core.text import escaped

LONGEST_ERROR = 200
"""How much of an error's text stands on the line itself, in characters."""
_DEEPEST = 5
_LARGEST = 2**63
_INDENT = "    "
_JOB = ("queue", "id", "attempt")
_USUAL = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
_USUAL |= {f"bee_{name}" for name in _JOB}


HANDLED: ContextVar[tuple[str, Lease]] = ContextVar("bee_handled")
"""What the handler here is at, and in which queue; its task and its threads inherit it."""


class JobContext(logging.Filter):
    """Gives every record `bee_queue`, `bee_id` and `bee_attempt`: those of the job at hand, or "".

    For format strings of your own, and for handlers that format in another thread, where the job
    could no longer be known. The formatters of this module do not need it otherwise.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        job = _job(record)
        for name in _JOB:
            setattr(record, f"bee_{name}", job.get(name, ""))
        return True


class _Formatter(logging.Formatter):
    """What the two formatters share: the parts of a record."""

    def __init__(
        self,
        fmt: str | None = None,
        datefmt: str | None = None,
        style: Literal["%", "{", "$"] = "%",
        validate: bool = True,
        *,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        if fmt is not None or defaults is not None:
            raise InvalidOption(
                f"{type(self).__name__} has a format of its own: leave `format` out"
            )
        super().__init__(None, datefmt)

    def _below(self, record: logging.LogRecord) -> tuple[str, str]:
        """The traceback and the stack, or empty texts."""
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        stack = self.formatStack(record.stack_info) if record.stack_info else ""
        return record.exc_text or "", stack


class KeyValueFormatter(_Formatter):
    """`12:04:31.123 INFO shop paid queue=mail id=0199 attempt=1 cents=250`: one line a record.

    Tracebacks and stacks are indented below it. `datefmt` is what `time.strftime` takes.
    """

    default_time_format = "%H:%M:%S"
    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record, self.datefmt)} {record.levelname} {record.name}"
        parts = [escaped(head), escaped(_message(record))]
        known = {} if _own(record) else _job(record)  # its own text has them already
        fields = known | dict(_extras(record, known))
        parts += [f"{shown(key)}={shown(value)}" for key, value in fields.items()]
        lines = [" ".join(parts)]
        for text in self._below(record):
            lines += [_INDENT + escaped(line) for line in text.splitlines()]
        return "\n".join(lines)


class JsonFormatter(_Formatter):
    """One JSON object a line: time, level, logger, message, process, the job, and what was added.

    An error is `error` and `traceback`, a stack is `stack`. A field whose name is taken gets an
    underscore behind it. Values that JSON does not know are shown as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _rfc3339(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            "process": record.process,
        }
        line |= _own(record) or _job(record)
        trace, stack = self._below(record)
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error", error_line(record.exc_info[1]))
        if trace:
            line["traceback"] = trace
        if stack:
            line["stack"] = stack
        line |= _extras(record, line)
        return _json(line)


def configure_logging(
    form: Literal["text", "json"] = "text", level: str | int = logging.INFO
) -> None:
    """Log to standard error, unless the program has set up its logging already.

    For programs, not for libraries: it is the root logger that is set up.
    """
    formatters: dict[str, type[_Formatter]] = {"text": KeyValueFormatter, "json": JsonFormatter}
    if form not in formatters:
        raise InvalidOption(f"logs come as text or json, not as {form!r}")
    threshold = _level(level)
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(formatters[form]())
    logging.basicConfig(level=threshold, handlers=[handler])
    logging.captureWarnings(True)


def text_of(value: object) -> str:
    """The text of anything, or why there is none: a `__str__` may raise whatever it likes."""
    try:
        return str(value)
    except BaseException as worse:
        return f"(its text cannot be had: {type(worse).__name__})"


def error_line(error: BaseException) -> str:
    """The type and text of an error, bounded, whatever its own methods do."""
    text, name = text_of(error), type(error).__name__
    line = f"{name}: {text}" if text else name
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 3] + "..."


def shown(value: object) -> str:
    """A value for key=value: bare if it is one plain word, or else quoted and escaped."""
    text = value if isinstance(value, str) else text_of(value)
    if text and text.isprintable() and not any(c in text for c in ' "=\\'):
        return text
    return escaped(json.dumps(text, ensure_ascii=False))


def _own(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a record of bee's own."""
    own = record.__dict__.get("bee")
    return own if isinstance(own, dict) and record.name == "bee" else {}


def _job(record: logging.LogRecord) -> dict[str, Any]:
    """The job that was being handled: as `JobContext` noted it, or as it is here and now."""
    noted = record.__dict__
    if "bee_id" in noted:
        found = {name: noted.get(f"bee_{name}", "") for name in _JOB}
        return found if found["id"] != "" else {}
    handled = HANDLED.get(None)
    if handled is None:
        return {}
    queue, lease = handled
    return {"queue": queue, "id": lease.receipt.id, "attempt": attempt_number(lease.counters)}


def _extras(record: logging.LogRecord, taken: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the caller added with `extra`."""
    own = _own(record)
    for name, value in record.__dict__.items():
        if name not in _USUAL and not name.startswith("_") and (name != "bee" or not own):
            yield (f"{name}_" if name in taken else name), value


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the line is worth more than its arguments
        return f"{text_of(record.msg)} (and its arguments cannot be shown: {error_line(error)})"


def _json(line: dict[str, Any]) -> str:
    try:
        return json.dumps({key: _plain(value) for key, value in line.items()})
    except Exception:  # a value that even this could not tame
        return json.dumps({str(key): text_of(value) for key, value in line.items()})


def _plain(value: object, depth: int = 0) -> object:
    """The value as JSON knows it."""
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int() if -_LARGEST <= value < _LARGEST:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case dict() if depth < _DEEPEST:
            return {text_of(key): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
            return [_plain(item, depth + 1) for item in value]
        case _:
            return text_of(value)


def _rfc3339(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def _level(level: str | int) -> int:
    names = logging.getLevelNamesMapping()
    if isinstance(level, str) and level.upper() in names:
        return names[level.upper()]
    if isinstance(level, int) and not isinstance(level, bool) and level >= 0:
        return level
    raise InvalidOption(f"{level!r} is not a level of logging: {', '.join(names)}")
