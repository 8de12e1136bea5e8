"""Several processes of one program: started, watched, replaced, and stopped together.

Each post has a number and one process that works in it. A process that crashes is started again
after a pause that grows; one that leaves by itself, to be recycled, is replaced at once, while its
last jobs still run. The supervisor never loads the user's program, so it stays small and cannot be
blocked by it. When it is killed its processes notice, and stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from bee_core.errors import BeeError
from bee_core.events import Event, ProcessEnded, ProcessSlowed, ProcessStarted, log
from bee_core.journal import log_events
from bee_core.service.channel import Beat, Leaving, Lines, Said, Up
from bee_core.service.exits import Exit
from bee_core.service.posts import PAUSES, Pauses, Post, Process
from bee_core.service.pulse import HeartbeatFile, Pulse, State, summed
from bee_core.service.signals import HEARD
from bee_core.service.wire import Told

Command: TypeAlias = Callable[[int, int], Sequence[str]]
"""From the number of a post and of a file descriptor to the command of its process."""
Listener: TypeAlias = Callable[[Told], None]

FATAL = {Exit.USAGE, Exit.MISCONFIGURED}
"""If a process begins like this there is no sense in starting it again, or any other."""
_MOST_LEAVING = 4
"""So many of one post may be on their way out; only then is it left empty until one has left."""
_SILENT = 1.0
"""Seconds in which a socket ends whose process has ended."""


class Supervisor:
    """Runs `count` processes until it is told to stop, or until all have nothing left to do.

    `listeners` hear every event of every process that sends its own, and those about processes.
    `environment` is that of the processes; by default they inherit it.
    """

    def __init__(
        self,
        command: Command,
        count: int,
        *,
        until_empty: bool = False,
        listeners: Sequence[Listener] = (),
        heartbeat_file: HeartbeatFile | None = None,
        environment: Mapping[str, str] | None = None,
        pauses: Pauses = PAUSES,
    ) -> None:
        self._command = command
        self._posts = [Post(number, pauses) for number in range(count)]
        self._until_empty = until_empty
        self._listeners = tuple(listeners)
        self._file = heartbeat_file
        self._environment = environment
        self._pauses = pauses
        self._alive: set[Process] = set()
        self._all_ended: set[asyncio.Task[int]] = set()
        self._signals = 0
        self._stop = asyncio.Event()
        self._code = Exit.OK
        self._started = time.time()

    async def run(self) -> Exit:
        """Once. Takes over SIGTERM and SIGINT of this process."""
        with heard(self.stop):
            return await self.watch_over()

    async def watch_over(self) -> Exit:
        """Once, and leave signals to the caller."""
        beating = asyncio.create_task(self._beat(), name="bee:pulse")
        try:
            await self._keep_all()
            while self._all_ended:
                await asyncio.wait(self._all_ended)
        finally:
            beating.cancel()
            for process in self._alive:
                process.signal(signal.SIGKILL)
            if self._file is not None:
                self._file.remove()
        return self._code

    async def _keep_all(self) -> None:
        """The first one alone until its program is loaded: what is wrong with it is said once."""
        first_up = asyncio.Event()
        async with asyncio.TaskGroup() as keeping:
            keeping.create_task(self._keep(self._posts[0], first_up))
            await first_up.wait()
            for post in self._posts[1:]:
                keeping.create_task(self._keep(post, asyncio.Event()))

    async def _keep(self, post: Post, up: asyncio.Event) -> None:
        """Have a process in this post, until there shall be none."""
        leaving: set[asyncio.Task[int]] = set()
        try:
            while not self._stop.is_set():
                try:
                    process = await self._start(post)
                except OSError as error:  # no memory, no more processes, no more files: it may pass
                    log.error("process=%d cannot be started: %s", post.number, error)
                    await self._rest(post.crashed(0.0))
                    continue
                assert process.ended is not None
                await _first(process.ended, process.up)
                if not process.ended.done():
                    up.set()
                    await _first(process.ended, process.leaving)
                if not process.ended.done():
                    post.first = False
                    leaving.add(process.ended)
                    await self._make_room(post, leaving)
                    continue  # it is replaced while its last jobs run
                pause = self._pause_after(post, process, process.ended.result())
                up.set()
                if pause is None:
                    return
                await self._rest(pause)
        finally:
            up.set()

    async def _make_room(self, post: Post, leaving: set[asyncio.Task[int]]) -> None:
        """Wait until few enough of those that were replaced are left: they need memory, too."""
        leaving -= {ended for ended in leaving if ended.done()}
        if len(leaving) < _MOST_LEAVING:
            return
        log.warning("process=%d is replaced when one of %d has left", post.number, len(leaving))
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({stop, *leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    async def _rest(self, pause: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause)

    async def _start(self, post: Post) -> Process:
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command(post.number, theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=self._environment,
                process_group=0,  # Ctrl-C in a terminal reaches the supervisor alone
            )
        except OSError:
            mine.close()
            raise
        finally:
            theirs.close()
        process = Process(post.number, child, mine)
        self._alive.add(process)
        process.ended = asyncio.create_task(self._see_out(process, post), name="bee:process")
        self._all_ended.add(process.ended)
        process.ended.add_done_callback(self._all_ended.discard)
        self._announce(process, ProcessStarted(post.number, child.pid))
        if self._stop.is_set():
            process.signal(signal.SIGTERM)
        return process

    async def _see_out(self, process: Process, post: Post) -> int:
        """Listen to it until it has ended; return its code, negative for a signal."""
        hearing = asyncio.create_task(self._hear(process, post), name="bee:hearing")
        code = await process.child.wait()
        await asyncio.wait({hearing}, timeout=_SILENT)
        hearing.cancel()
        process.line.close()
        self._alive.discard(process)
        stopping, leaving = self._stop.is_set(), process.leaving.is_set()
        good = code == 0 or (stopping and code == -signal.SIGTERM)
        if stopping and not good and self._code == Exit.OK:
            self._code = Exit.ERROR
        wanted = good and (stopping or leaving or self._until_empty)
        name = signal.Signals(-code).name if code < 0 else None
        ended = ProcessEnded(
            process.number, process.child.pid, code if code >= 0 else None, name, wanted
        )
        self._announce(process, ended)
        return code

    async def _hear(self, process: Process, post: Post) -> None:
        loop, lines = asyncio.get_running_loop(), Lines()
        try:
            while data := await loop.sock_recv(process.line, 1 << 18):
                for said in lines.feed(data):
                    self._on_said(process, post, said)
        except OSError:  # it has ended
            return
        except BeeError as error:
            log.error("process=%d is not listened to any more: %s", process.number, error)

    def _on_said(self, process: Process, post: Post, said: Said) -> None:
        match said:
            case Up(grace=grace):
                process.grace = grace
                process.up.set()
            case Leaving():
                process.leaving.set()
            case Beat(pulse=pulse):
                process.pulse = pulse
                post.working = post.working or pulse.state == "working"
            case Told():
                self._tell(said)

    def _pause_after(self, post: Post, process: Process, code: int) -> float | None:
        """Seconds until another one takes its post; None if there shall be no other."""
        left = process.leaving.is_set()
        if self._stop.is_set() or (self._until_empty and code == 0 and not left):
            return None
        if post.first and code in FATAL:
            self._code = Exit(code)
            self._tell_all_to_stop()
            return None
        post.first = False
        if left:
            return 0.0
        slowed = post.slowed
        pause = post.crashed(process.lived)
        if post.slowed and not slowed:
            event = ProcessSlowed(post.number, self._pauses.crashes, pause)
            self._announce(process, event)
        return pause

    # Stopping.

    def stop(self) -> None:
        """As a signal does: the second time hurries, the third kills. `run` returns."""
        self._signals += 1
        if self._signals >= 3:
            self._code = Exit.KILLED
            self._kill_all()
        self._tell_all_to_stop()

    def _tell_all_to_stop(self) -> None:
        self._stop.set()
        for process in self._alive:
            process.signal(signal.SIGTERM)
        graces = [process.grace for process in self._alive] if self._signals < 2 else []
        patience = max(graces, default=0.0) + self._pauses.after_grace
        asyncio.get_running_loop().call_later(patience, self._kill_all)

    def _kill_all(self) -> None:
        self._stop.set()
        for process in self._alive:
            process.signal(signal.SIGKILL)

    # Telling.

    def _announce(self, process: Process, event: Event) -> None:
        log_events(event)
        self._tell(Told(time.time(), process.number, process.child.pid, event))

    def _tell(self, told: Told) -> None:
        for listener in self._listeners:
            try:
                listener(told)
            except Exception:
                log.exception("listener %r failed on %s", listener, type(told.event).__name__)

    async def _beat(self) -> None:
        troubled = False
        while self._file is not None:
            try:
                self._file.write(self._pulse())
                troubled = False
            except OSError as error:
                if not troubled:
                    log.warning("the heartbeat file cannot be written: %s", error)
                troubled = True
            await asyncio.sleep(self._pauses.beat)

    def _pulse(self) -> Pulse:
        """All of them as one. Those that leave are no longer counted."""
        pulses = [p.pulse for p in self._alive if p.pulse and not p.leaving.is_set()]
        working = all(post.working for post in self._posts)
        state: State = "working" if working else "starting"
        return Pulse(
            pid=os.getpid(),
            time=time.time(),
            started=self._started,
            state="stopping" if self._stop.is_set() else state,
            queues=summed(pulses),
            processes=pulses,
        )


async def _first(ended: asyncio.Task[int], event: asyncio.Event) -> None:
    """Return when it has ended, or when that has happened."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


@contextmanager
def heard(on_signal: Callable[[], None]) -> Iterator[None]:
    """Inside it SIGTERM and SIGINT do that, and nothing else."""
    loop = asyncio.get_running_loop()
    for number in HEARD:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in HEARD:
            loop.remove_signal_handler(number)
