"""Tasks that belong together: those that keep a worker going, and the workers of a hive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from bee_core.errors import BeeError

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


def is_in_a_loop() -> bool:
    """Whether an event loop runs here, so that tasks can be started."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def together(runs: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All of them to their ends. If one fails, the others are interrupted, and it is raised."""
    tasks = {asyncio.create_task(run, name="bee:run") for run in runs}
    left = set(tasks)
    failed: list[asyncio.Task[None]] = []
    try:
        while left and not failed:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in done if task.cancelled() or task.exception() is not None]
    finally:
        for task in left:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in failed:
        if task.cancelled():
            raise BeeError("a worker was cancelled by somebody else than its hive")
        task.result()
