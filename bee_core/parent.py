"""The parent's side of one child process: its start, its wire, its end.

All runs in the event loop but for a thread per child, which starts it and waits for its end. While
that thread has not reaped the child, its number and that of its group can be nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from bee_core import child as program
from bee_core.child import BEGUN, CALL, ERROR, EXIT, HEADER, LOG, RESULT, SETUP, Setup

Answer: TypeAlias = tuple[bytes, bytes]
"""How a call ended: RESULT, ERROR or EXIT, and what the child says of it."""

_TURN = 0.5
"""Seconds to see whether a child that is no longer heard has died or only closed its wire."""
POLITE = 1.0
"""Seconds in which a child that is no longer needed may end by itself."""
_CHUNK = 1 << 18

_lives: set[int] = set()
"""The pipes that children live as long as. A fork of this process must not keep them open."""


class ChildDied(Exception):
    """The process died that ran the function: by a crash, or because somebody killed it."""

    def __init__(self, why: str, *, begun: bool = True) -> None:
        super().__init__(f"the process that ran the handler died: {why}")
        self.begun = begun
        """Whether it had the call by then."""


class Child:
    """One child process: at most one call at a time, until it ends."""

    def __init__(self, setup: Setup, patience: float, on_ended: Callable[[Child], None]) -> None:
        first = pickle.dumps(setup)
        self._loop = asyncio.get_running_loop()
        self._patience = patience
        self._on_ended = on_ended
        self._lock = threading.Lock()  # between signals and the reaping, of group `_pid`
        self._pid: int | None = None
        self._doomed = False
        self._fault: str | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._received, self._unsent = bytearray(), bytearray()
        self.begun = False
        """Whether it has had the last call."""
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._socket, theirs = socket.socketpair()
        life, self._life = os.pipe()
        _lives.add(self._life)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        self._send(SETUP, first)
        thread = threading.Thread(
            target=self._live, args=(theirs, life), name="bee:child", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            theirs.close()
            os.close(life)
            _let_go(self._life)
            self._close()
            raise

    @property
    def usable(self) -> bool:
        """Whether it can be given a call."""
        return not self._doomed and not self.ended.done()

    async def call(self, payload: bytes) -> Answer:
        """Send it a call and wait for the end of that; cancel it to stop the child."""
        self.begun = False
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._send(CALL, payload)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():
                await self._stop()
            else:
                answer.exception()  # looked at, so that asyncio does not complain
            raise

    async def _stop(self) -> None:
        self.signal(signal.SIGTERM)
        timer = self._loop.call_later(self._patience, self.signal, signal.SIGKILL)
        try:
            await asyncio.shield(self.ended)
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)
            raise
        finally:
            timer.cancel()

    def dismiss(self) -> None:
        """Let it end by itself, but not for ever."""
        self._doomed = True
        with suppress(OSError):  # it has ended
            self._socket.shutdown(socket.SHUT_WR)
        self._loop.call_later(POLITE, self.signal, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the child and to all it has started that are still in its group."""
        self._doomed = True
        with self._lock:
            if self._pid is not None:
                _signal_group(self._pid, number)

    # What the child sends, and is sent.

    def _send(self, kind: bytes, payload: bytes) -> None:
        self._unsent += HEADER.pack(kind, len(payload)) + payload
        self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._write)
            return
        except OSError:  # it has died, or closed its wire: the reading side finds out which
            self._unsent.clear()
        self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        """Read some, and see to it. Return whether there may be more."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._spoil("it closed its connection to the worker", _TURN)
        self._received += data
        while len(self._received) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._received)
            end = HEADER.size + size
            if kind not in (BEGUN, RESULT, ERROR, EXIT, LOG):
                self._spoil("it wrote to its connection to the worker", 0)
                return False
            if len(self._received) < end:
                break
            payload = bytes(memoryview(self._received)[HEADER.size : end])
            del self._received[:end]
            self._hear(kind, payload)
        return bool(data)

    def _spoil(self, fault: str, delay: float) -> None:
        """It cannot be used any more. If it has not died it is killed for that."""
        self._doomed = True
        self._loop.remove_reader(self._socket)
        if not self.ended.done():
            self._loop.call_later(delay, self._kill_for, fault)

    def _kill_for(self, fault: str) -> None:
        if not self.ended.done():
            self._fault = fault
            self.signal(signal.SIGKILL)

    def _hear(self, kind: bytes, payload: bytes) -> None:
        if kind == BEGUN:
            self.begun = True
        elif kind == LOG:
            self._loop.call_soon(_log, payload)  # so that what a log handler raises is its own
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result((kind, payload))
        else:
            self.dismiss()  # told to stop, it has ended its call instead of itself

    def _end(self, status: int | Exception | None) -> None:
        while self._read():  # what it sent before its end
            pass
        self._close()
        if self._answer is not None and not self._answer.done():
            died = ChildDied(self._fault or _said(status), begun=self.begun)
            self._answer.set_exception(status if isinstance(status, Exception) else died)
        self.ended.set_result(None)
        self._on_ended(self)

    def _close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()

    # All below runs in the thread of this child.

    def _live(self, theirs: socket.socket, life: int) -> None:
        status: int | Exception | None
        try:
            process = _spawn(theirs.fileno(), life)
        except Exception as error:
            status, process = error, None
        finally:
            theirs.close()
            os.close(life)
        if process is not None:
            with self._lock:
                self._pid = process.pid
                if self._doomed:
                    _signal_group(process.pid, signal.SIGKILL)
            status = self._outlive(process)
        _let_go(self._life)
        try:
            self._loop.call_soon_threadsafe(self._end, status)
        except RuntimeError:  # the loop is closed: nobody waits any more
            self._socket.close()
        if process is not None and status is not None:
            _reap_group(process.pid)

    def _outlive(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for its end, kill what it leaves behind in its group, and only then reap it."""
        known = True
        try:
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
        except ChildProcessError:  # somebody else in this program has reaped it
            known = False
        with self._lock:
            self._pid = None
            if known:
                _signal_group(process.pid, signal.SIGKILL)
            status = process.wait()
        return status if known else None


def _spawn(wire: int, life: int) -> subprocess.Popen[bytes]:
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *flags, "-P", program.__file__, str(wire), str(life)],
        stdin=subprocess.DEVNULL,
        pass_fds=(wire, life),
        start_new_session=True,
    )


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it is dead; or somebody else's by setuid
        os.killpg(group, number)


def _reap_group(group: int) -> None:
    """What a child has left behind is for the first process of a container, which may be us."""
    with suppress(ChildProcessError):  # there is none, or none any more
        while True:
            os.waitpid(-group, 0)


def _said(status: object) -> str:
    """How a process ended, in words."""
    if not isinstance(status, int):
        return "nobody knows how"
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _log(payload: bytes) -> None:
    """Handle a record of a child as if it had been made here."""
    try:
        record = logging.makeLogRecord(pickle.loads(payload))  # noqa: S301
    except Exception as error:
        logging.getLogger("bee").warning("a log record of a child cannot be read: %r", error)
        return
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


def _let_go(life: int) -> None:
    _lives.discard(life)
    os.close(life)


def _after_fork() -> None:
    for life in list(_lives):
        _let_go(life)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
