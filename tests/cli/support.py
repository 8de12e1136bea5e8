"""Stores with something in them, filled as programs fill them."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCSCTTY, TIOCSWINSZ
from typing import TypeVar

import psutil

import bee_core as bee
from bee_core.broker import Store

from .conftest import bee_command, bee_environment

T = TypeVar("T")


class Mail(bee.Job):
    """Fails if that is what it says."""

    to: str
    fails: str = ""


class Pay(bee.Job):
    """Ends well."""

    account: str


Jobs = Mail | Pay


def use(url: str, act: Callable[[Store], Awaitable[T]]) -> T:
    """Do something with a store."""

    async def go() -> T:
        async with bee.connect(url) as store:
            return await act(store)

    return asyncio.run(go())


def work(url: str, queue: str) -> None:
    """Work on a queue until it is empty."""
    hive = bee.Hive(url, observers=())
    jobs = hive.queue(queue, Jobs, policy=bee.Policy(on_error=bee.Archive()))

    @jobs.handler
    async def handle(job: Jobs) -> None:
        match job:
            case Mail(fails="slowly"):
                raise bee.Snooze(3600)
            case Mail(fails=fails) if fails:
                raise ConnectionError(f"{fails}\nand more")
            case _:
                pass

    async def go() -> None:
        async with hive:
            await hive.run(until_empty=True)

    asyncio.run(go())


def send(url: str, queue: str, *ids: str, job: Jobs = Mail("ada"), delay: float = 0.0) -> None:
    """Send a job under each of these ids."""

    async def go(store: Store) -> None:
        jobs = bee.Queue(store, queue, Jobs)
        await jobs.send_many([jobs.draft(job, id=id, delay=delay) for id in ids])

    use(url, go)


def fail(url: str, queue: str, *ids: str, error: str = "host 10.0.0.1 refused") -> None:
    """Leave a job in the archive under each of these ids, with the traceback of its error."""
    send(url, queue, *ids, job=Mail("ada", fails=error))
    work(url, queue)


def lease(url: str, queue: str, *, number: int = 1, duration: float = 600) -> list[str]:
    """Somebody takes jobs, and does not end them. Return their ids."""

    async def go(store: Store) -> list[str]:
        leases = await store.lease(queue, limit=number, duration=duration, holder="ann:1")
        return [lease.receipt.id for lease in leases]

    return use(url, go)


def states(url: str, queue: str) -> dict[str, str]:
    """Where each job is, by id; archived ones included."""

    async def go(store: Store) -> dict[str, str]:
        found: dict[str, str] = {}
        for state in reversed(bee.State):
            page = await store.scan(queue, state, limit=10_000)
            found |= {one.id: state.value for one in page.items}
        return found

    return use(url, go)


class Terminal:
    """`bee ...` on a terminal of its own: what it shows, and keys to press."""

    def __init__(self, words: Sequence[str], *, columns: int = 100, lines: int = 30) -> None:
        self._master, slave = pty.openpty()
        ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {
            name: value
            for name, value in bee_environment().items()
            if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            bee_command(*words),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: ioctl(0, TIOCSCTTY, 0),  # so that Ctrl-C is heard
        )
        os.close(slave)
        self.shown = ""

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self._master, keys.encode())

    def wait_until_it_reads(self) -> None:
        """Python does not hear a signal that comes right before it begins to read a line."""
        while psutil.Process(self.process.pid).status() != psutil.STATUS_SLEEPING:
            time.sleep(0.01)

    def wait_for(self, text: str, *, seconds: float = 20.0) -> None:
        """Read until it shows this."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.shown}"
            if not self._read():
                break
        assert text in self.shown, f"it ended without {text!r}:\n{self.shown}"

    def end(self, *, seconds: float = 20.0) -> int:
        """Read until it ends; return its exit code."""
        deadline = time.monotonic() + seconds
        while self._read() and time.monotonic() < deadline:
            pass
        return self.process.wait(timeout=seconds)

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        """Whether there may be more."""
        if select.select([self._master], [], [], 0.1)[0]:
            with suppress(OSError):  # Linux says EIO when the other side is closed
                data = os.read(self._master, 65536)
                self.shown += data.decode(errors="replace")
                return bool(data)
            return False
        return self.process.poll() is None
