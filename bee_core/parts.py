"""The tasks that keep a worker going, which nobody but the worker may end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeAlias

Part: TypeAlias = Callable[[], Coroutine[None, None, None]]


class Parts:
    """Runs each part in a task; one that is cancelled by somebody else is run in another.

    What fails is reported, and started once more.
    """

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: set[str] = set()
        self._stopping = False

    def start(self, name: str, part: Part) -> None:
        """Keep this part running until `stop`."""
        task = asyncio.create_task(part(), name=name)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if self._stopping:
                return
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._on_failure(name, error)
                if name in self._failed:  # what it leaves undone, the end of its leases settles
                    return
                self._failed.add(name)
            self.start(name, part)

        task.add_done_callback(ended)

    async def stop(self) -> None:
        """End them all."""
        self._stopping = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
