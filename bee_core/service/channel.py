"""Between a supervisor and its processes: one socket each, and lines of JSON in one direction.

A process says that it is up, how it is, that it leaves, and what happens in it. The supervisor says
nothing; when it is gone the socket ends, which each process hears in a thread of its own.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from bee_core.errors import BeeError
from bee_core.service.pulse import Pulse
from bee_core.service.wire import Told, decode, encode

_MARK = b"!"
_MANY = 20


class Up(msgspec.Struct, frozen=True, tag="up"):
    """The program is loaded and there is something in it to work on."""

    grace: float


class Leaving(msgspec.Struct, frozen=True, tag="leaving"):
    """It takes no more jobs: another one may take its place."""


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """How it is."""

    pulse: Pulse


Said: TypeAlias = Up | Leaving | Beat | Told


class Upstream:
    """A process's end. Nothing here ever waits for the supervisor, but for threads of its own."""

    def __init__(self, fd: int, *, on_orphaned: Callable[[], None]) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.set_inheritable(False)
        self._on_orphaned = on_orphaned
        self._lock = threading.Lock()
        self._notes: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        for target, name in ((self._listen, "bee:supervisor"), (self._write_notes, "bee:notes")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def say(self, note: Up | Leaving | Beat) -> None:
        """Say it soon. How it is may be left unsaid when nobody listens; the next one says more."""
        if isinstance(note, Beat) and self._notes.qsize() > _MANY:
            return
        self._notes.put(_MARK + msgspec.json.encode(note) + b"\n")

    def tell(self, batch: Sequence[Told]) -> None:
        """Hand over events. Blocks: it is for the thread of an `Outbox`."""
        self._send(b"".join(encode(told) + b"\n" for told in batch))

    def _write_notes(self) -> None:
        with suppress(OSError):  # the supervisor is gone, which is heard elsewhere
            while True:
                self._send(self._notes.get())

    def _send(self, data: bytes) -> None:
        with self._lock:
            self._socket.sendall(data)

    def _listen(self) -> None:
        with suppress(OSError):
            while self._socket.recv(64):
                pass
        self._on_orphaned()


class Lines:
    """The supervisor's end: from chunks of bytes to what was said."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Said]:
        """What is complete by now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [_said(line) for line in lines if line]


def _said(line: bytes) -> Said:
    if not line.startswith(_MARK):
        return decode(line)
    try:
        return _notes.decode(line[1:])
    except msgspec.MsgspecError as error:
        raise BeeError(f"not a note of bee: {line[:200]!r} ({error})") from error


_notes: msgspec.json.Decoder[Up | Leaving | Beat] = msgspec.json.Decoder(Up | Leaving | Beat)
