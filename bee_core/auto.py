"""Finding out how many jobs to run at once, instead of being told.

`Auto` says between which bounds and by which signs. `Course` decides: pure, no clock, no tasks.
`Tuner` reads the meter now and then and applies what was decided.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import msgspec

from bee_core.checks import check_whole
from bee_core.clock import Clock
from bee_core.duration import seconds
from bee_core.errors import InvalidOption
from bee_core.meter import Load, LoopMeter, Meter, Reading
from bee_core.parts import Parts

log = logging.getLogger("bee")

FAR = 2.0
"""The need for CPU, as part of what there is, above which it falls."""
STEEP, GENTLE = 2.0, 1.1
"""The factor by which it rises at most, before and after it has fallen for the first time."""
FALL, SHED = 0.75, 0.9
"""The factors by which it falls, for too much load and for too little."""
SETTLE, PATIENCE = 2, 20
"""Decisions after a fall before it may fall again, as jobs that run are not stopped; and rise."""


class Auto(msgspec.Struct, frozen=True, kw_only=True):
    """A number of jobs at once that follows the load.

    min, max   the bounds
    start      where it begins; by default at `min`
    cpu        it rises while less than this part of the CPU is needed, of the loop's thread and of
               the machine
    lag        seconds: it falls if the event loop is later than that, and rises only while it is
               less than half as late
    every      seconds between two decisions
    meter      what to read instead; by default a `LoopMeter` for each worker
    """

    min: int = 1
    max: int = 100
    start: int | None = None
    cpu: float = 0.9
    lag: float = 0.2
    every: float = 0.5
    meter: Meter | None = None

    def __post_init__(self) -> None:
        check_whole(self.min, "min of Auto", least=1)
        check_whole(self.max, "max of Auto", least=1)
        if self.max < self.min:
            raise InvalidOption(f"Auto takes min <= max, not {self.min} and {self.max}")
        if self.start is not None:
            check_whole(self.start, "start of Auto", least=1)
            if not self.min <= self.start <= self.max:
                raise InvalidOption(f"Auto starts between min and max, not at {self.start}")
        if type(self.cpu) not in (int, float) or not 0 < self.cpu <= 1:
            raise InvalidOption(f"cpu of Auto is a part, above 0 and up to 1, not {self.cpu!r}")
        seconds(self.lag, "lag of Auto", least=0.001)
        seconds(self.every, "every of Auto", least=0.01)
        if self.meter is not None and not callable(getattr(self.meter, "read", None)):
            raise InvalidOption(f"a meter has a method `read`; {self.meter!r} has none")

    @property
    def first(self) -> int:
        """Where it begins."""
        return self.min if self.start is None else self.start


class Course:
    """Decides the next size. Knows how it went so far, and nothing else.

    It rises by what the CPU seems to allow, at most twofold at a time. When it has fallen it stays
    for a while, and then rises in small steps: so it does not swing about the limit it has found.
    For either, two readings in a row must agree.
    """

    def __init__(self, auto: Auto) -> None:
        self._auto = auto
        self._reading = Reading(0.0, 0.0)
        self._careful = False
        self._patience = 0

    def next(self, size: int, load: Load, reading: Reading) -> int:
        """The size from now on."""
        auto, before, self._reading = self._auto, self._reading, reading
        cpu, lag = max(before.cpu, reading.cpu), max(before.lag, reading.lag)
        self._patience -= self._patience > 0
        wanted = size
        if self._is_too_much(reading):
            settled = self._patience <= PATIENCE - SETTLE
            if load.used and settled and self._is_too_much(before):
                self._careful, self._patience = True, PATIENCE
                wanted = min(size - 1, int(size * FALL))
        elif load.hungry:
            if cpu < auto.cpu and lag < auto.lag / 2 and not self._patience:
                steep = GENTLE if self._careful else STEEP
                wanted = max(size + 1, int(size * min(steep, 1 / max(cpu, 0.01))))
        elif load.used < size / 2:
            self._careful, self._patience = False, 0  # another load: what was learnt is void
            wanted = max(load.used, min(size - 1, math.ceil(size * SHED)))
        return min(max(wanted, auto.min), auto.max)

    def _is_too_much(self, reading: Reading) -> bool:
        return reading.lag > self._auto.lag or reading.cpu > FAR


@runtime_checkable
class _Sampling(Protocol):
    async def run(self) -> None: ...


class Tuner:
    """Keeps one size right, as a part of the worker or the hive it belongs to."""

    def __init__(
        self,
        auto: Auto,
        clock: Clock,
        *,
        size: Callable[[], int],
        load: Callable[[], Load],
        resize: Callable[[int], None],
        on_changed: Callable[[int, Reading], None],
    ) -> None:
        self._auto = auto
        self._clock = clock
        self._size = size
        self._load = load
        self._resize = resize
        self._on_changed = on_changed
        self._meter = LoopMeter() if auto.meter is None else auto.meter
        self._course = Course(auto)
        self._failing = False

    def start(self, parts: Parts) -> None:
        """Keep it running."""
        parts.start("bee:auto", self._run)
        if isinstance(self._meter, _Sampling):
            parts.start("bee:meter", partial(self._sample, self._meter))

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(self._auto.every)
            load, reading = self._load(), self._read()
            if reading is None:
                continue
            before = self._size()
            size = self._course.next(before, load, reading)
            if size != before:
                self._resize(size)
                self._on_changed(size, reading)

    async def _sample(self, meter: _Sampling) -> None:
        """Once, however it ends: a meter that fails harms nobody."""
        try:
            await meter.run()
        except Exception:
            log.exception("meter %r failed", meter)
        await asyncio.Event().wait()

    def _read(self) -> Reading | None:
        """A meter that fails harms nobody: the size stays as it is. It is logged once."""
        try:
            reading = self._meter.read()
            if not isinstance(reading, Reading):
                raise TypeError(f"a meter reads a Reading, not {reading!r}")
            if not math.isfinite(reading.cpu) or not math.isfinite(reading.lag):
                raise ValueError(f"a meter reads numbers, not {reading!r}")
        except Exception:
            if not self._failing:
                log.exception("meter %r failed", self._meter)
            self._failing = True
            return None
        self._failing = False
        return reading


def check_size(value: int | Auto, name: str) -> int | Auto:
    """A whole number from 1, or Auto; or InvalidOption."""
    return value if isinstance(value, Auto) else check_whole(value, name, least=1)


def first_and_most(value: int | Auto) -> tuple[int, int]:
    """Where a size begins, and the most that it may become."""
    return (value.first, value.max) if isinstance(value, Auto) else (value, value)
