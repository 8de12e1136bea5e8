"""The simulation itself: its time, its processes, and who is next."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

from bee_core.clock import Alarm, SystemAlarm
from bee_core.errors import BeeError
from bee_core.heartbeat import Heartbeat
from bee_core.testing.simulation.loop import SimulatedLoop

T = TypeVar("T")

EPOCH = 1_000_000_000.0
_BURST = 4
"""A loop that is chosen runs up to so many callbacks before another one is chosen."""
_TURNS = 1_000_000
"""Callbacks after which a program that does not end is at fault."""


class Nothing(BeeError):
    """Nothing will ever happen any more, and what was waited for has not."""


class Killed(BaseException):
    """Raised where a process blocks that is killed meanwhile: it ends there."""


class Process:
    """Some event loops that live and die together: that of a worker, and that of its heartbeat."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self.name = name
        self.alive = True
        self.stopped_until = -math.inf
        self.held_up_at = -math.inf
        """When it was last stopped, or one of its loops blocked."""
        self.loops: list[SimulatedLoop] = []
        self.loop = self.add_loop("main")
        self.complaints: list[str] = []
        """What asyncio complained of: exceptions that nobody looked at, callbacks that raised."""

    @property
    def runs(self) -> bool:
        """Whether it is alive, and not stopped."""
        return self.alive and self._simulation.now >= self.stopped_until

    def start(self, work: Coroutine[Any, Any, T], name: str = "main") -> asyncio.Task[T]:
        """Do this in it."""
        return self.loop.create_task(work, name=name)

    def call(self, function: Callable[[], object]) -> None:
        """Call this in it, as a signal would."""
        self.loop.call_soon(function)

    def add_loop(self, name: str) -> SimulatedLoop:
        """Another thread, with a loop of its own."""
        loop = SimulatedLoop(self._simulation, self, name)  # type: ignore[abstract] # no sockets
        self.loops.append(loop)
        self._simulation.loops.append(loop)
        return loop

    def kill(self) -> None:
        """As -9 would: nothing in it moves any more."""
        self.alive = False
        self._simulation.loops = [loop for loop in self._simulation.loops if loop.process.alive]

    def stop(self, seconds: float) -> None:
        """As SIGSTOP would, and SIGCONT after that time: its timers are late then."""
        until = self._simulation.now + seconds
        self.stopped_until = max(self.stopped_until, until)
        self.held_up_at = max(self.held_up_at, until)
        self._simulation.call_at(until)

    def left(self) -> list[asyncio.Task[Any]]:
        """Its tasks that are not done."""
        return [task for loop in self.loops for task in loop.tasks if not task.done()]


class Simulation:
    """Time and chance for any number of processes."""

    def __init__(self, seed: int = 0, *, shuffle: bool = True) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self._shuffle = shuffle
        self._timers: list[tuple[float, int, SimulatedLoop | None, asyncio.Handle | None]] = []
        self._numbers = count()
        self.turns = 0
        """Callbacks that were run so far."""
        self.over = False
        """Whether it is being cleared away: what happens from then on counts for nothing."""
        self.loops: list[SimulatedLoop] = []
        self.processes: list[Process] = []
        self.clock = SimulatedClock(self)

    def process(self, name: str) -> Process:
        """A new process, in which nothing happens yet."""
        process = Process(self, name)
        self.processes.append(process)
        return process

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Do this in a process of its own until it is done, and all the others meanwhile."""
        task = self.process("director").start(main)
        with _heartbeats_inside(), _no_loop_runs():
            try:
                while not task.done():
                    if not self._turn():
                        raise Nothing("nothing is left to happen, and it is not over")
                return task.result()
            finally:
                self._close()

    def block(self, seconds: float) -> None:
        """In a handler: hold up its event loop, while time passes for everything else."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        until = self.now + seconds
        self.call_at(until)
        loop.process.held_up_at = max(loop.process.held_up_at, until)

        def wait() -> None:
            while self.now < until and self._turn():
                pass

        loop.block(wait)
        loop.process.held_up_at = max(loop.process.held_up_at, self.now)
        if not loop.process.alive:
            raise Killed

    def wake_at(self, when: float, loop: SimulatedLoop, handle: asyncio.TimerHandle) -> None:
        """A loop has a timer."""
        heapq.heappush(self._timers, (when, next(self._numbers), loop, handle))

    def call_at(self, when: float) -> None:
        """Let time come by there."""
        heapq.heappush(self._timers, (when, next(self._numbers), None, None))

    def complain(self, loop: SimulatedLoop, context: dict[str, Any]) -> None:
        """What asyncio has to say is kept with the process."""
        if self.over:
            return
        what, error = context.get("message", ""), context.get("exception")
        loop.process.complaints.append(f"{loop.name}: {what}: {error!r}")

    def _turn(self) -> bool:
        """Let something happen, or time pass. False if nothing will ever happen any more."""
        able = [loop for loop in self.loops if loop.ready and loop.runs]
        if not able:
            return self._pass_time()
        draw = self.chance.random
        loop = able[int(draw() * len(able))] if len(able) > 1 else able[0]
        for _ in range(1 + int(draw() * _BURST) if len(able) > 1 else len(loop.ready)):
            ready = len(loop.ready)
            self.turns += 1
            loop.turn(int(draw() * ready) if self._shuffle and ready > 1 else 0)
            if not loop.runs:
                break
        if self.turns > _TURNS:
            raise Nothing(f"not over after {_TURNS} callbacks, at {self.now:.3f}")
        return True

    def _pass_time(self) -> bool:
        timers = self._timers
        while timers:
            when, _, loop, handle = heapq.heappop(timers)
            if loop is None or handle is None:
                self.now = max(self.now, when)
                return True
            if handle.cancelled() or not loop.process.alive:
                continue
            self.now = max(self.now, when)
            loop.ready.append(handle)
            while timers and timers[0][0] <= self.now:
                _, _, loop, handle = heapq.heappop(timers)
                if loop is not None and handle is not None and not handle.cancelled():
                    loop.ready.append(handle)
            return True
        return False

    def _close(self) -> None:
        """End what is left in every process, unheard: the dead are buried, too."""
        self.over = True
        for process in self.processes:
            process.alive, process.stopped_until = True, -math.inf
        self.loops = [loop for process in self.processes for loop in process.loops]
        for _ in range(20):
            left = [task for process in self.processes for task in process.left()]
            if not left:
                break
            for task in left:
                task.cancel()
            self._settle()
        for loop in self.loops:
            loop.close()
        self._timers.clear()

    def _settle(self) -> None:
        """Let everything happen that can at this moment."""
        for _ in range(10_000):
            able = [loop for loop in self.loops if loop.ready and not loop.blocked]
            if not able:
                return
            for loop in able:
                loop.turn(0)


class SimulatedClock:
    """The time of a simulation, as a `bee_core.clock.Clock`. It may be some seconds off."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.offset = EPOCH

    def now(self) -> float:
        return self._simulation.now + self.offset

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def alarm(self) -> Alarm:
        return SystemAlarm()


@contextmanager
def _no_loop_runs() -> Iterator[None]:
    """Each loop says that it runs as it is turned; in the end none does."""
    if events._get_running_loop() is not None:
        raise RuntimeError("a simulation is not run inside of an event loop")
    try:
        yield
    finally:
        events._set_running_loop(None)


@contextmanager
def _heartbeats_inside() -> Iterator[None]:
    """Let the heartbeats of workers be threads of the simulation's, not of this process's."""
    launch = Heartbeat._launch
    Heartbeat._launch = _launch  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Heartbeat._launch = launch  # type: ignore[method-assign]


def _launch(heartbeat: Heartbeat, up: asyncio.Future[None]) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop), "in a simulation all workers run inside of it"
    beside = loop.process.add_loop("heartbeat")
    life = beside.create_task(_live(heartbeat, up, beside), name="bee:heartbeat:life")
    life.add_done_callback(lambda _: beside.close())


async def _live(heartbeat: Heartbeat, up: asyncio.Future[None], loop: SimulatedLoop) -> None:
    """As `asyncio.run` would: what is left at the end is cancelled, and waited for."""
    with heartbeat._telling(up):
        try:
            await heartbeat._live(up)
        finally:
            left = [task for task in loop.tasks[1:] if not task.done()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
