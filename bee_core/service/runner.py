"""Running a hive as the whole of a process: signals, recycling, a pulse, an exit code.

An embedded hive has none of this; `bee worker` is this with options. When a process has done
`max_jobs` or has grown beyond `max_rss` it is recycled: it takes no more jobs, lets the running
ones end without a limit of time, and leaves.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bee_core.checks import check_whole
from bee_core.duration import LONGEST
from bee_core.errors import BrokerMisconfigured, InvalidOption, WorkerStuck
from bee_core.events import AttemptSettled, Event, log
from bee_core.hive import Hive
from bee_core.service.exits import Exit
from bee_core.service.pulse import Pulse, State
from bee_core.service.signals import Signals

_BEAT = 1.0
"""Seconds between two pulses."""
_UNANSWERED = 1.0
"""Seconds for a call under way when a process that holds nothing is told to stop."""
_CLOSING = 0.6
_AFTERWARDS = 5.0
"""Seconds for connections to close, threads to end and exit handlers to run."""


def run_hive(
    hive: Hive,
    *,
    signals: Signals,
    until_empty: bool = False,
    max_jobs: int | None = None,
    max_rss: int | None = None,
    on_pulse: Sequence[Callable[[Pulse], None]] = (),
    on_leaving: Callable[[], None] = lambda: None,
    on_end: Sequence[Callable[[], None]] = (),
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> Exit:
    """Work until a signal comes, or until there is a reason to leave; return the exit code.

    `on_pulse` hear about every second how it is, `on_leaving` that it takes no more jobs, `on_end`
    that nothing runs any more; `new_loop` makes the event loop. Raises, before it works, what is
    wrong with the hive.
    """
    runner = Runner(hive, signals, until_empty, max_jobs, max_rss, on_pulse, on_leaving, on_end)
    return runner.run(new_loop)


class Runner:
    """One run of a hive. See `run_hive`."""

    def __init__(
        self,
        hive: Hive,
        signals: Signals,
        until_empty: bool,
        max_jobs: int | None,
        max_rss: int | None,
        on_pulse: Sequence[Callable[[Pulse], None]],
        on_leaving: Callable[[], None],
        on_end: Sequence[Callable[[], None]],
    ) -> None:
        self._hive = hive
        self._signals = signals
        self._until_empty = until_empty
        self._max_jobs = None if max_jobs is None else check_whole(max_jobs, "max_jobs", least=1)
        self._max_rss = None if max_rss is None else check_whole(max_rss, "max_rss", least=1)
        self._on_pulse = on_pulse
        self._on_leaving = on_leaving
        self._on_end = on_end
        self._settled = 0
        self._leaving = self._troubled = self._up = False
        self._started = time.time()
        self._seeing_off: asyncio.Task[None] | None = None

    def run(self, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Exit:
        """Once."""
        if self._max_rss is not None and (size := resident()) > self._max_rss:
            raise InvalidOption(
                f"max_rss is {self._max_rss} bytes, but the program needs {size} to begin with"
            )
        if self._max_jobs is not None:
            self._hive.adjust(observers=(self._count,))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(self._main())

    async def _main(self) -> Exit:
        run = self._hive.run(until_empty=self._until_empty)
        running = asyncio.create_task(run, name="bee:hive")
        grace, cancel_grace = self._hive.patience
        self._signals.attend(self._on_signal, grace=grace, cancel_grace=cancel_grace)
        beating = asyncio.create_task(self._beat(), name="bee:pulse")
        await asyncio.wait({running})
        for task in (beating, self._seeing_off):
            if task is not None:
                task.cancel()
        code = _code(running)
        self._signals.leave_within(_AFTERWARDS, code)
        for tell in self._on_end:
            tell()
        try:
            await self._hive.aclose()
        except Exception as error:
            log.warning("the broker could not be closed: %r", error)
        return code

    def _on_signal(self, count: int) -> None:
        running = sum(queue.running for queue in self._hive.health().queues.values())
        jobs = "1 job runs" if running == 1 else f"{running} jobs run"
        if count > 1:
            if running:
                log.info("stopping: %s, and no longer", jobs)
            self._hive.stop(grace=0)
            return
        if running:
            grace, _ = self._hive.patience
            log.info("stopping: %s, for %g s at most; a second signal interrupts", jobs, grace)
        self._hive.stop()
        self._leave()
        self._seeing_off = asyncio.create_task(self._see_off(), name="bee:seeing-off")

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._on_leaving()
            self._tell_pulse()

    def _recycle(self, why: str) -> None:
        if not self._leaving and not self._hive.stopping:
            log.info("recycled: %s", why)
            self._hive.stop(grace=LONGEST)
            self._leave()

    def _count(self, event: Event) -> None:
        if isinstance(event, AttemptSettled):
            self._settled += 1
            if self._settled == self._max_jobs:
                self._recycle(f"{self._settled} jobs are done")

    async def _see_off(self) -> None:
        """A call that gets no answer must not keep a process that holds nothing."""
        pause = _UNANSWERED
        while pause:
            await asyncio.sleep(pause)
            holding = any(queue.held for queue in self._hive.health().queues.values())
            pause = 0.1 if holding else 0.0
        self._signals.leave_within(_CLOSING, Exit.OK)
        self._hive.kill()

    async def _beat(self) -> None:
        while True:
            if self._max_rss is not None and (size := resident()) > self._max_rss:
                self._recycle(f"it has {size} bytes of memory, more than {self._max_rss}")
            self._tell_pulse()
            await asyncio.sleep(_BEAT if self._up else _BEAT / 10)

    def _tell_pulse(self) -> None:
        pulse = self._pulse()
        try:
            for tell in self._on_pulse:
                tell(pulse)
            self._troubled = False
        except OSError as error:
            if not self._troubled:
                log.warning("the heartbeat file cannot be written: %s", error)
            self._troubled = True

    def _pulse(self) -> Pulse:
        health = self._hive.health()
        answered = all(queue.fetched_ago is not None for queue in health.queues.values())
        self._up = self._up or answered
        state: State = "working" if self._up else "starting"
        return Pulse(
            pid=os.getpid(),
            time=time.time(),
            started=self._started,
            state="stopping" if health.stopping else state,
            queues=health.queues,
        )


def _code(running: asyncio.Task[None]) -> Exit:
    """How it ended, also said in the log."""
    error = None if running.cancelled() else running.exception()
    match error:
        case None:
            return Exit.OK
        case WorkerStuck():
            log.error("%s", error)
            return Exit.RESTART
        case BrokerMisconfigured():
            log.error("%s", error)
            return Exit.MISCONFIGURED
        case _:
            log.error("the worker failed", exc_info=error)
            return Exit.ERROR


def resident() -> int:
    """The memory of this process that is in RAM, in bytes; its peak where only that is known."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # there is none on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
