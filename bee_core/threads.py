"""Daemon threads for plain handlers.

Python cannot stop a thread. Unlike those of an executor, these never hold up the end of the
process, so a handler that hangs for ever costs one thread and nothing else.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from bee_core.forks import end_if_forked, this_process

_Work: TypeAlias = tuple[Callable[[], object], Callable[[object, BaseException | None], None]]


class Threads:
    """As many threads as there is work at once; idle ones are used again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, function: Callable[[], object]) -> asyncio.Future[object]:
        """Run the function in a thread. Cancelling the future does not stop it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()

        def report(result: object, error: BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_complete, future, result, error)

        if not self._idle.acquire(blocking=False):
            self._count += 1
            name = f"bee:{self._name}:{self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        self._work.put((function, report))
        return future

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work."""
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        owner = this_process()
        while (work := self._work.get()) is not None:
            function, report = work
            try:
                result = function()
                end_if_forked(owner)
            except BaseException as error:  # SystemExit too: it is the job that failed
                end_if_forked(owner, error)
                report(None, error)
            else:
                report(result, None)
            del function, report, work
            self._idle.release()


class Raised(Exception):
    """Carries an exception that a future refuses to hold, such as StopIteration."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _complete(future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(Raised(error))
