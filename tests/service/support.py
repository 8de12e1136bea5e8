"""Starting `bee worker` in a directory of its own, and looking at what it does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import bee_core as bee
from bee_core.ids import new_id
from tests.service.program import Work

ROOT = Path(__file__).parents[2]
BEE = [sys.executable, "-m", "bee_core.cli"]
WAIT = 20.0
"""Seconds for anything to happen; far more than it takes."""


class Service:
    """A place with a program in it, a queue in a store, and the processes that were started."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.queue = f"service-{new_id()[-12:]}"
        self.started: list[subprocess.Popen[bytes]] = []
        shutil.copy(ROOT / "tests" / "service" / "program.py", directory / "shop.py")

    def start(
        self, *words: str, target: str = "shop:hive", **environment: str
    ) -> subprocess.Popen[bytes]:
        """`bee worker TARGET WORDS`; what it says goes into the file `said`."""
        with (self.directory / "said").open("ab") as said:
            process = subprocess.Popen(
                [*BEE, "worker", target, *words],
                cwd=self.directory,
                stdout=said,
                stderr=said,
                env=self.environment(**environment),
            )
        self.started.append(process)
        return process

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`bee WORDS`, to its end."""
        return subprocess.run(
            [*BEE, *words],
            cwd=self.directory,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def environment(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        own = {"BEE_URL": self.url, "QUEUE": self.queue, "PYTHONPATH": path}
        return os.environ | own | more

    async def send(self, do: str = "nothing", seconds: float = 0.0, count: int = 1) -> list[str]:
        async with bee.connect(self.url) as broker:
            queue = bee.Queue(broker, self.queue, Work)
            jobs = [Work(do=do, seconds=seconds) for _ in range(count)]
            return [ticket.id for ticket in await queue.send_many(jobs)]

    async def stats(self) -> bee.QueueStats:
        async with bee.connect(self.url) as broker:
            return await broker.stats(self.queue)

    async def stored(self, id: str) -> bee.Stored:
        async with bee.connect(self.url) as broker:
            found = await broker.get(self.queue, id)
            assert found is not None
            return found

    def journal(self, what: str) -> list[tuple[int, str]]:
        """Who noted this, and of which job."""
        with suppress(FileNotFoundError):
            lines = [line.split() for line in (self.directory / "journal").read_text().splitlines()]
            return [(int(pid), id) for pid, word, id in lines if word == what]
        return []

    def said(self) -> str:
        with suppress(FileNotFoundError):
            return (self.directory / "said").read_text()
        return ""

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The whole lines in the file `events`, or those of one kind."""
        with suppress(FileNotFoundError):
            lines = (self.directory / "events").read_text().split("\n")
            found = [json.loads(line) for line in lines[:-1]]
            return [event for event in found if kind in (None, event["event"])]
        return []

    async def until(self, true: Callable[[], Any], within: float = WAIT) -> None:
        deadline = time.monotonic() + within
        while not true():
            assert time.monotonic() < deadline, f"it did not happen\n{self.said()}"
            await asyncio.sleep(0.02)

    async def working(self, workers: int = 1) -> None:
        await self.until(lambda: self.said().count("worker started") >= workers)

    async def begun(self, count: int = 1) -> None:
        await self.until(lambda: len(self.journal("begins")) >= count)

    async def emptied(self) -> None:
        deadline = time.monotonic() + WAIT
        while (await self.stats()).live:
            assert time.monotonic() < deadline, self.said()
            await asyncio.sleep(0.05)

    async def code(self, process: subprocess.Popen[bytes], within: float = WAIT) -> int:
        """Its exit code; negative for a signal."""
        await self.until(lambda: process.poll() is not None, within)
        return process.returncode

    def clean_up(self) -> None:
        """Leave no process behind, whatever became of the test."""
        for process in self.started:
            for child in children(process.pid):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


def children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
