"""An event loop that somebody else turns, callback by callback, and whose time is not real."""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from bee_core.testing.simulation.simulation import Process, Simulation

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_numbers = count()


class SimulatedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


class SimulatedFuture(asyncio.Future[T]):
    """As SimulatedTask."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(_numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The event loop of one thread of one process of a simulation.

    It has what tasks, futures, sleeps and timeouts need, and no files, sockets or threads.
    """

    def __init__(self, simulation: Simulation, process: Process, name: str) -> None:
        self._simulation = simulation
        self.process = process
        self.name = name
        self.ready: list[asyncio.Handle] = []
        self.blocked = False
        """Whether one of its callbacks is under way, and waits in it for time to pass."""
        self.tasks: list[SimulatedTask[Any]] = []
        """All that were started here, and have not been seen to be done."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<SimulatedLoop {self.process.name}/{self.name}>"

    @property
    def runs(self) -> bool:
        """Whether one of its callbacks can run now."""
        return bool(self.ready) and not self.blocked and self.process.runs

    def turn(self, chosen: int) -> None:
        """Run one of the callbacks that are ready."""
        handle = self.ready.pop(chosen)
        if not handle.cancelled():
            events._set_running_loop(self)
            handle._run()

    def block(self, wait: Callable[[], None]) -> None:
        """Do something in the midst of a callback, in which other loops run."""
        task = asyncio.current_task(self)
        self.blocked = True
        if task is not None:
            asyncio.tasks._leave_task(self, task)
        events._set_running_loop(None)
        try:
            wait()
        finally:
            events._set_running_loop(self)
            if task is not None:
                asyncio.tasks._enter_task(self, task)
            self.blocked = False

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._simulation.now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._simulation.wake_at(when, self, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It stays where it is until its time has come."""

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        task: SimulatedTask[T] = SimulatedTask(coro, loop=self, **options)
        self.tasks.append(task)
        if len(self.tasks) > 100:  # the first one is the main one
            self.tasks[1:] = [task for task in self.tasks[1:] if not task.done()]
        return task

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self.ready.clear()

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._simulation.complain(self, context)
