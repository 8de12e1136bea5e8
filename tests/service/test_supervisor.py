"""The supervisor on its own, with shorter pauses than it has in earnest."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from bee_core.events import Event, ProcessEnded, ProcessSlowed, ProcessStarted
from bee_core.service.exits import Exit
from bee_core.service.posts import Pauses, Post
from bee_core.service.pulse import HeartbeatFile, Pulse
from bee_core.service.supervisor import Supervisor
from bee_core.service.wire import Told

SHORT = Pauses(first=0.01, longest=0.3, crashes=3, after_grace=0.5)


class Run:
    """A supervisor of small programs, and what it tells."""

    def __init__(self, program: str, count: int = 1, *, pauses: Pauses = SHORT) -> None:
        self.program = program
        self.events: list[Event] = []
        self.heard = asyncio.Event()
        self.supervisor = Supervisor(self.command, count, listeners=[self.hear], pauses=pauses)
        self.task = asyncio.create_task(self.supervisor.run())

    def command(self, number: int, fd: int) -> Sequence[str]:
        return [sys.executable, "-S", "-c", self.program, str(number), str(fd)]

    def hear(self, told: Told) -> None:
        self.events.append(told.event)
        self.heard.set()

    async def until(self, kind: type, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.of(kind)) < count:
                self.heard.clear()
                await self.heard.wait()

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


async def test_a_process_that_crashes_in_a_loop_is_slowed_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run("raise SystemExit(3)")

    await run.until(ProcessEnded, 5)
    run.supervisor.stop()

    assert Exit.OK == await run.task
    assert [ProcessSlowed(0, 3, 0.3)] == run.of(ProcessSlowed)
    assert "crash loop process=0 crashes=3 pause=0.3s" in caplog.text


async def test_a_process_that_does_not_stop_is_killed() -> None:
    program = """
import signal, socket, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
socket.socket(fileno=int(sys.argv[2])).sendall(b'!{"type":"up","grace":0.2}\\n')
time.sleep(3600)
"""
    run = Run(program, 2)
    await run.until(ProcessStarted, 2)
    async with asyncio.timeout(20):
        while not all(process.up.is_set() for process in run.supervisor._alive):
            await asyncio.sleep(0.01)  # until both ignore the signal

    run.supervisor.stop()

    assert Exit.ERROR == await run.task
    assert {"SIGKILL"} == {e.signal for e in run.of(ProcessEnded) if isinstance(e, ProcessEnded)}


@pytest.mark.parametrize("code", [Exit.USAGE, Exit.MISCONFIGURED])
async def test_a_bad_beginning_ends_everything(code: Exit) -> None:
    run = Run(f"raise SystemExit({int(code)})", 3)

    assert code == await run.task
    assert 1 == len(run.of(ProcessStarted))


async def test_one_that_says_nonsense_is_not_listened_to_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = """
import socket, sys, time
socket.socket(fileno=int(sys.argv[2])).sendall(b'nonsense\\n')
"""
    run = Run(program)
    await run.until(ProcessEnded, 1)
    run.supervisor.stop()

    assert Exit.OK == await run.task
    assert "not an event of bee" in caplog.text


async def test_signals_of_the_supervisor_are_those_of_its_processes() -> None:
    run = Run("import time; time.sleep(3600)", 2)
    await run.until(ProcessStarted, 1)

    os.kill(os.getpid(), signal.SIGTERM)

    assert Exit.OK == await run.task
    assert all(e.wanted for e in run.of(ProcessEnded) if isinstance(e, ProcessEnded))


def test_pauses_grow_and_a_long_life_makes_them_short_again() -> None:
    post = Post(0, Pauses(first=0.5, longest=30, crashes=100))

    pauses = [post.crashed(1.0) for _ in range(8)]

    assert [0.5, 1, 2, 4, 8, 16, 30, 30] == pauses
    assert 0.5 == post.crashed(60.0)
    assert 1.0 == post.crashed(1.0)


def test_the_fifth_crash_in_a_minute_is_the_last_quick_one() -> None:
    post = Post(0, Pauses())

    assert [0.5, 1, 2, 4, 30, 30] == [post.crashed(0.1) for _ in range(6)]
    assert post.slowed
    assert 0.5 == post.crashed(60.0)
    assert not post.slowed


async def test_what_cannot_be_started_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    run = Run("import time; time.sleep(3600)")
    tries: list[int] = []

    def command(number: int, fd: int) -> Sequence[str]:
        tries.append(fd)
        program = sys.executable if len(tries) > 1 else "/no/such/python"
        return [program, "-S", "-c", run.program]

    run.supervisor._command = command

    await run.until(ProcessStarted, 1)
    run.supervisor.stop()

    assert Exit.OK == await run.task
    assert "process=0 cannot be started: " in caplog.text


async def test_a_heartbeat_file_that_cannot_be_written_is_complained_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(HeartbeatFile):
        tries = 0

        def write(self, pulse: Pulse) -> None:
            self.tries += 1
            raise OSError(28, "No space left on device")

    file = Full(tmp_path / "heartbeat")
    pauses = Pauses(beat=0.001)
    command = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
    supervisor = Supervisor(lambda number, fd: command, 1, heartbeat_file=file, pauses=pauses)
    task = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(20):
        while file.tries < 10:
            await asyncio.sleep(0.001)
    supervisor.stop()

    assert Exit.OK == await task
    assert 1 == caplog.text.count("the heartbeat file cannot be written")


async def test_those_that_leave_and_do_not_end_are_not_replaced_without_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = """
import socket, sys, time
socket.socket(fileno=int(sys.argv[2])).sendall(
    b'!{"type":"up","grace":0.1}\\n!{"type":"leaving"}\\n'
)
time.sleep(3600)
"""
    run = Run(program)
    async with asyncio.timeout(20):
        while "is replaced when one of 4 has left" not in caplog.text:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert 4 == len(run.of(ProcessStarted))

    first = run.of(ProcessStarted)[0]
    assert isinstance(first, ProcessStarted)
    os.kill(first.pid, signal.SIGKILL)
    await run.until(ProcessStarted, 5)
    run.supervisor.stop()

    assert Exit.OK == await run.task


async def test_one_that_left_to_be_recycled_is_replaced_also_if_its_end_is_heard_at_once(
    tmp_path: Path,
) -> None:
    """With --until-empty it looks as if nothing were left to do: it ends with 0."""
    program = """
import os, socket, sys
line = socket.socket(fileno=int(sys.argv[2]))
line.sendall(b'!{"type":"up","grace":0.1}\\n')
if not os.path.exists(sys.argv[3]):
    open(sys.argv[3], "w").close()
    line.sendall(b'!{"type":"leaving"}\\n')
"""
    started: list[Event] = []

    def command(number: int, fd: int) -> Sequence[str]:
        return [sys.executable, "-S", "-c", program, str(number), str(fd), str(tmp_path / "one")]

    def hear(told: Told) -> None:
        if isinstance(told.event, ProcessStarted):
            started.append(told.event)
            with suppress(ChildProcessError):  # it is reaped already
                os.waitid(os.P_PID, told.event.pid, os.WEXITED | os.WNOWAIT)
            time.sleep(0.2)  # the loop is busy until all there is to hear is there

    supervisor = Supervisor(command, 1, until_empty=True, listeners=[hear], pauses=SHORT)

    assert Exit.OK == await asyncio.wait_for(supervisor.run(), 20)
    assert 2 == len(started)
