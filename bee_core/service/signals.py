"""SIGTERM and SIGINT of a process that is all bee's, and how it is certain to leave.

The first signal stops, the second hurries, the third ends the process there and then. Signals are
counted twice: by handlers, which Python runs in the main thread between two of its own steps, and
by a thread that the interpreter's C handler wakes even while the main thread is lost in a call
that does not return. When all patience is over another thread ends the process, whatever the
handlers of jobs are doing; and if code that never gives up Python's global lock keeps it from that,
faulthandler does, with the stacks of all threads. Only one that held the lock before the signal
came cannot be helped.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

from bee_core.service.exits import Exit

HEARD = (signal.SIGTERM, signal.SIGINT)
_ANSWER = 0.5
"""Seconds in which an event loop that is not blocked answers."""
_FLUSH = 6.0
"""Seconds in which a worker that is not blocked has said the last to its broker, or given up."""


class Signals:
    """Hears signals from when it is entered until the process ends.

    Until `attend` is called there is nothing to stop, and the first signal ends the process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler may interrupt another one
        self._acted = self._handled = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_stop: Callable[[int], None] | None = None
        self._grace = self._cancel_grace = 0.0
        self._last_resort = LastResort(self._loop_answers)

    def __enter__(self) -> Self:
        mine, theirs = socket.socketpair()
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._sockets = mine, theirs
        for number in HEARD:
            signal.signal(number, self._handle)
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_forget)
        self._last_resort.start()
        threading.Thread(target=self._listen, name="bee:signals", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing: a process that is on its way out can still be hurried."""

    def attend(self, on_stop: Callable[[int], None], *, grace: float, cancel_grace: float) -> None:
        """From now on, call this in the running loop with the number of the signal: 1 or 2."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            # Once more: uvloop has taken it when it began to run, and gives it back at its end.
            signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
            self._on_stop, self._grace, self._cancel_grace = on_stop, grace, cancel_grace

    def stop(self) -> None:
        """As a first signal would. Any thread may call it."""
        self._act(1)

    def leave_within(self, seconds: float, code: int) -> None:
        """End the process with that code, should it not have ended by itself by then."""
        self._last_resort.arm(seconds, code, patient=False)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._handled += 1
        self._act(self._handled)

    def _listen(self) -> None:
        heard = 0
        while numbers := self._sockets[0].recv(64):
            for number in numbers:
                if number in HEARD:
                    heard += 1
                    self._act(heard)

    def _act(self, count: int) -> None:
        with self._lock:
            if count <= self._acted:
                return  # the other one was quicker
            self._acted = count
            if count >= 3:
                os._exit(Exit.KILLED)
            if self._loop is None or self._on_stop is None:
                os._exit(Exit.OK)
            grace = self._grace if count == 1 else 0.0
            patience = grace + 2 * min(1.0, self._cancel_grace) + 1
            self._last_resort.arm(patience, Exit.ERROR)
            faulthandler.dump_traceback_later(patience + _ANSWER + _FLUSH + 1, exit=True, file=2)
            with suppress(RuntimeError):  # the loop is closed: it is on its way out
                self._loop.call_soon_threadsafe(self._on_stop, count)

    def _loop_answers(self) -> bool:
        answered = threading.Event()
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it is closed
            return False
        return answered.wait(_ANSWER)


class LastResort:
    """Ends the process at its time. One that still answers is given a little more, once."""

    def __init__(self, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self._changed = threading.Condition()
        self._at = float("inf")
        self._code = 0
        self._patient = False

    def start(self) -> None:
        """Beforehand: in the midst of a signal is no time to start a thread."""
        threading.Thread(target=self._run, name="bee:last-resort", daemon=True).start()

    def arm(self, seconds: float, code: int, *, patient: bool = True) -> None:
        """The earliest time counts."""
        with self._changed:
            if not patient:
                self._code = code  # how it ended is known
            at = time.monotonic() + seconds
            if at < self._at:
                self._at, self._code, self._patient = at, code, patient
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                left, patient = self._at - time.monotonic(), self._patient
                if left > 0:
                    self._changed.wait(min(left, 3600.0))
                    continue
            if not patient or not self._answers():
                break
            with self._changed:
                if self._patient:
                    self._patient = False
                    self._at = time.monotonic() + _FLUSH
        if self._code == Exit.ERROR:
            with suppress(OSError):
                os.write(2, b"bee: it was to stop, and did not in time; leaving all the same\n")
        os._exit(self._code)


# The signals of a fork are its own, and none of the parent's business. Until that is arranged they
# wait.

_masks = threading.local()


def _hold() -> None:
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)


def _let_go() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _forget() -> None:
    signal.set_wakeup_fd(-1)
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    _let_go()
