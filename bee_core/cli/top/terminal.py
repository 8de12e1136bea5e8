"""A terminal that is taken over for a while, and given back as it was, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from bee_core.cli.common.tables import is_terminal

try:
    import termios
    import tty
except ImportError:  # not on Windows: the screen is redrawn there, but keys are not heard
    termios = None  # type: ignore[assignment]

_ENTER = "\x1b[?1049h\x1b[?25l"  # the other screen, no cursor
_LEAVE = "\x1b[?25h\x1b[?1049l"
_ENDS = ("SIGTERM", "SIGHUP")


class Screen:
    """The alternate screen of the terminal that standard output is.

    Whoever waits for `wake` hears of another size, and of a wish to end (`ended`): q, Ctrl-C,
    Ctrl-D, a signal.
    """

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.ended = False
        self.signal: int | None = None
        """The signal that ended it, if it was one."""
        self._saved: list[Any] | None = None
        self._heard: list[int] = []
        self._loop = asyncio.get_running_loop()
        listens = termios is not None and is_terminal(sys.stdin)
        self._keys = sys.stdin.fileno() if listens else None

    def __enter__(self) -> Self:
        self._take()
        if self._keys is not None:
            self._loop.add_reader(self._keys, self._read)
        for name in _ENDS:
            self._on(name, self._end)
        self._on("SIGINT", lambda _: self._quit())
        self._on("SIGWINCH", lambda _: self.wake.set())
        self._on("SIGTSTP", self._suspend)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._keys is not None:
            self._loop.remove_reader(self._keys)
        for number in self._heard:
            self._loop.remove_signal_handler(number)
        self._give_back()

    def draw(self, lines: Iterable[str]) -> None:
        """Show these lines and nothing else."""
        text = "".join(f"\r{line}\x1b[K\n" for line in lines)
        sys.stdout.write(f"\x1b[H{text[:-1]}\x1b[J")
        sys.stdout.flush()

    def _on(self, name: str, act: Any) -> None:
        with suppress(AttributeError, NotImplementedError):  # on Windows
            number = getattr(signal, name)
            self._loop.add_signal_handler(number, act, number)
            self._heard.append(number)

    def _read(self) -> None:
        assert self._keys is not None
        try:
            keys = os.read(self._keys, 1024)
        except OSError:  # the terminal is gone
            keys = b""
        if not keys:
            self._loop.remove_reader(self._keys)
        if not keys or b"q" in keys or b"Q" in keys or b"\x04" in keys:
            self._quit()

    def _quit(self) -> None:
        self.ended = True
        self.wake.set()

    def _end(self, number: int) -> None:
        self.signal = number
        self._quit()

    def _suspend(self, number: int) -> None:
        """Ctrl-Z: give the terminal back, and take it again when the shell lets us go on."""
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self.wake.set()

    def _take(self) -> None:
        if self._keys is not None:
            self._saved = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _give_back(self) -> None:
        try:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        finally:
            if self._keys is not None and self._saved is not None:
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._saved)
