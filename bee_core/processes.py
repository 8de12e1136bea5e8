"""A pool of child processes that run plain functions, and are killed for real.

A child is a fresh interpreter (`child.py`) in a session of its own, so it and whatever it starts
are one process group. It runs one call at a time and is used again. Nothing here knows of jobs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from bee_core.child import ERROR, EXIT, LOADING, MAIN, Fault, Setup
from bee_core.parent import POLITE, Answer, Child, ChildDied

T = TypeVar("T")


class ChildExited(Exception):
    """A function in a child process called sys.exit()."""


class NotHandedOver(Exception):
    """A call, its result or its error cannot go from one process to the other."""


class InChild(Exception):
    """The traceback of an error where it was raised: the cause of what the parent raises."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Processes:
    """Runs up to `size` functions at once, each in a child of its own.

    size      may be changed at any time
    patience  seconds between SIGTERM and SIGKILL for a child whose call was cancelled
    """

    def __init__(self, size: int, *, patience: float = 5.0) -> None:
        self._size = size
        self._patience = patience
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._modules: dict[str, None] = {}
        self._closed = False

    @property
    def size(self) -> int:
        """How many functions may run at once."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size
        self._wake()
        self._trim()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call an importable function in a child, as soon as there is one to be had.

        Being cancelled sends SIGTERM to the child and all it has started, and waits for its end;
        being cancelled again, or once the patience is over, SIGKILL.
        """
        try:
            payload = pickle.dumps((function, args))
        except Exception as error:
            name = getattr(function, "__qualname__", repr(function))
            raise NotHandedOver(
                f"{name} or its arguments cannot be pickled, and so not run in another process: "
                f"{type(error).__name__}: {error}"
            ) from error
        await self._turn()
        try:
            answer = await self._call(payload)
        finally:
            self._busy -= 1
            self._wake()
        if module := getattr(function, "__module__", None):
            self._modules[module] = None  # it has done no harm to a child
        result: T = _opened(answer)
        return result

    async def aclose(self) -> None:
        """End all children: idle ones by themselves, if they are quick, the others by force."""
        self._closed = True
        self._trim()
        await self._all_ended()
        self.close()
        await self._all_ended()

    def close(self) -> None:
        """Kill all children, with all they have started, at once."""
        self._closed = True
        for child in self._children:
            child.signal(signal.SIGKILL)

    async def _all_ended(self) -> None:
        ends = [child.ended for child in self._children]
        if ends:
            await asyncio.wait(ends, timeout=POLITE)

    async def _call(self, payload: bytes) -> Answer:
        """Have an idle child run it, or a new one; if that dies before it has begun, another."""
        child = None
        while self._idle and child is None:
            idle = self._idle.pop()
            child = idle if idle.usable else None  # if not, it is about to end
        try:
            return await self._call_in(child or self._start(), payload)
        except ChildDied as died:
            if died.begun:
                raise
        return await self._call_in(self._start(), payload)

    async def _call_in(self, child: Child, payload: bytes) -> Answer:
        try:
            return await child.call(payload)
        finally:
            if child.usable:
                self._idle.append(child)
                self._trim()
            elif child.begun:
                self._replace()

    def _start(self) -> Child:
        if self._closed:
            raise RuntimeError("this pool of processes is closed")
        child = Child(self._setup(), self._patience, self._on_ended)
        self._children.add(child)
        return child

    def _replace(self) -> None:
        """Have a child ready for the next call, in place of one that was killed."""
        if not self._closed and self._usable < self._size:
            with suppress(OSError, RuntimeError):  # the next call tries again, and says so
                self._idle.append(self._start())

    def _trim(self) -> None:
        """Let go of idle children that there is no use for."""
        while self._idle and (self._closed or self._usable > self._size):
            self._idle.pop(0).dismiss()

    @property
    def _usable(self) -> int:
        return sum(child.usable for child in self._children)

    def _on_ended(self, child: Child) -> None:
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)

    async def _turn(self) -> None:
        """Wait until one more may run, first come, first served; it then counts as busy."""
        if self._busy < self._size and not self._waiting:
            self._busy += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn had come
                self._busy -= 1
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and (self._busy < self._size or self._waiting[0].done()):
            turn = self._waiting.popleft()
            if not turn.done():
                self._busy += 1
                turn.set_result(None)

    def _setup(self) -> Setup:
        main = sys.modules["__main__"]
        if hasattr(main, LOADING):
            raise RuntimeError(
                "a child process imports this main module, which must not start to work then: "
                'put the start under `if __name__ == "__main__":`'
            )
        sys.modules.setdefault(MAIN, main)  # as in a child, so that what it sends is found here
        spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        name = None if spec is None or spec.name == "__main__" else spec.name
        loggers = logging.root.manager.loggerDict.items()
        levels = {name: x.level for name, x in loggers if isinstance(x, logging.Logger) and x.level}
        return Setup(
            path=sys.path,
            argv=sys.argv,
            main=(name, None if path is None else os.path.abspath(path)),
            modules=list(self._modules),
            levels={"": logging.root.level} | levels,
            disabled=logging.root.manager.disable,
        )


def _opened(answer: Answer) -> Any:
    """What a call returned; or raise what it raised."""
    kind, payload = answer
    if kind == EXIT:
        raise ChildExited(payload.decode())
    if kind == ERROR:
        fault: Fault = pickle.loads(payload)  # noqa: S301
        raise _error_of(fault) from InChild(fault["trace"])
    try:
        return pickle.loads(payload)  # noqa: S301
    except Exception as error:
        raise NotHandedOver(
            f"the result cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error


def _error_of(fault: Fault) -> BaseException:
    if fault["error"] is None:
        return NotHandedOver(fault["text"])
    try:
        error = pickle.loads(fault["error"])  # noqa: S301
    except Exception as why:
        error = why
    else:
        if isinstance(error, BaseException):
            return error
    return NotHandedOver(f"{fault['text']} (which cannot be handed over itself: {error!r})")
