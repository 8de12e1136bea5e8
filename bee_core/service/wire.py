"""Events as JSON: for a file, and from one process to another, where they become events again.

What does not travel: the result of a handler, which may be anything, and the classes of errors, of
which the name and the text arrive. `Outbox` takes events from a worker that must never wait.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from bee_core.errors import BeeError
from bee_core.events import AttemptLost, AttemptSettled, Event, EventsDropped, log
from bee_core.logs import text_of
from bee_core.outcome import Failed, Succeeded

KINDS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
ROOM = 10_000
"""Events that may wait to be written."""
_LONGEST = 4_000
_LULL = 0.02
"""Seconds in which events gather before they are written together."""
_SUCCEEDED = Succeeded()


class RemoteError(Exception):
    """An error of another process: the name of its class, and what it said."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)


class Told(msgspec.Struct, frozen=True):
    """An event with the moment, and the process in which it happened."""

    time: float
    process: int
    """Its number, from 0; -1 is the supervisor itself."""
    pid: int
    event: Event


def encode(told: Told) -> bytes:
    """One line of JSON, without its end: `event` is the kind, its fields stand beside it."""
    event = _lightened(told.event)
    head = {"time": told.time, "process": told.process, "pid": told.pid}
    fields = msgspec.structs.asdict(event)
    if _TAKEN & fields.keys():  # the events about processes say these themselves
        head = {name: value for name, value in head.items() if name not in fields}
    line = head | {"event": type(event).__name__} | fields
    try:
        return _encoder.encode(line)
    except UnicodeEncodeError:  # lone surrogates, such as of a file name
        plain = msgspec.to_builtins(line, enc_hook=_to_json)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def decode(line: bytes) -> Told:
    """The same event, but for what does not travel."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        kind = KINDS[fields["event"]]
        event = msgspec.convert(fields, kind, dec_hook=_from_json)
        return Told(fields["time"], fields["process"], fields["pid"], event)
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise BeeError(f"not an event of bee: {line[:200]!r} ({error!r})") from error


class Outbox:
    """Hands events over in batches, from a thread of its own.

    `write` may be slow, or never return: then events are dropped, and counted, and whoever
    announces them does not notice. What it raises ends the writing for good.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Told]], None],
        process: int,
        pid: int,
        *,
        room: int = ROOM,
    ) -> None:
        self._write = write
        self._process = process
        self._pid = pid
        self._room = room
        self._waiting: deque[Told] = deque()
        self._dropped = 0
        self._counting = threading.Lock()
        self._closed = threading.Event()
        self._some = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bee:events", daemon=True)
        self._thread.start()

    def observe(self, event: Event) -> None:
        """Take an event of this process: an observer for workers."""
        self.take(Told(time.time(), self._process, self._pid, _lightened(event)))

    def take(self, told: Told) -> None:
        """Take one. Any thread may call it."""
        if len(self._waiting) >= self._room:
            with self._counting:
                self._dropped += 1
            return
        self._waiting.append(told)
        if not self._some.is_set():
            self._some.set()

    def close(self, patience: float = 2.0) -> None:
        """Write what is left, but not for longer than that."""
        self._closed.set()
        self._some.set()
        self._thread.join(patience)

    def _run(self) -> None:
        while True:
            self._some.wait()
            closing = self._closed.wait(_LULL)
            self._some.clear()
            batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
            with self._counting:
                dropped, self._dropped = self._dropped, 0
            if dropped:
                lack = EventsDropped(dropped)
                batch.append(Told(time.time(), self._process, self._pid, lack))
            try:
                if batch:
                    self._write(batch)
            except Exception as error:
                self._room = 0
                self._waiting.clear()
                log.error("no more events are written: %r", error)
                return
            if closing and not self._waiting:
                return


def _lightened(event: Event) -> Event:
    """An event without what does not travel: while it waits it must not keep that alive."""
    if isinstance(event, AttemptSettled | AttemptLost):
        match event.outcome:
            case Succeeded():
                return msgspec.structs.replace(event, outcome=_SUCCEEDED)
            case Failed(error=error) if not isinstance(error, RemoteError):  # it has a traceback
                told = RemoteError(type(error).__name__, _text(error))
                outcome = msgspec.structs.replace(event.outcome, error=told)
                return msgspec.structs.replace(event, outcome=outcome)
    return event


def _to_json(value: object) -> object:
    """What JSON does not know: errors, and whatever else somebody may have put into one."""
    if isinstance(value, RemoteError):
        return {"kind": value.kind, "text": value.text}
    if isinstance(value, BaseException):
        return {"kind": type(value).__name__, "text": _text(value)}
    return _text(value)


def _text(value: object) -> str:
    return text_of(value)[:_LONGEST].encode("utf-8", "replace").decode()


def _from_json(kind: type, value: Any) -> object:
    if kind is object:  # a result, which has not travelled
        return value
    if issubclass(kind, BaseException):
        return RemoteError(value["kind"], value["text"])
    raise TypeError(f"a field of type {kind.__name__} has no way back from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_json)
_TAKEN = {"time", "process", "pid"}
