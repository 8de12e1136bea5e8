"""Starting again when the program's code has changed: for development.

Files are looked at, not loaded: the supervisor never has the program in it. What can be told
without loading it, that a file is no Python, is told, and the old code goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeAlias

from bee_core.events import log
from bee_core.service.exits import Exit
from bee_core.service.supervisor import FATAL, Supervisor, heard

Files: TypeAlias = Mapping[str, tuple[int, int]]
"""When each file was changed last, and its size."""

_EVERY = 0.5
"""Seconds between two looks."""
_LULL = 0.2
"""Seconds without a change after which an editor, or git, has written all there is."""
_SLOW = 1.0
_NOT_OURS = {"__pycache__", "node_modules", "site-packages"}


class Watch:
    """The .py files below some directories."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = roots
        self._seen = self._look()

    @classmethod
    def of_program(cls, target: str) -> Watch:
        """Below the current directory, and where the program's package is if that is elsewhere."""
        here = Path.cwd()
        name = target.partition(":")[0].partition(".")[0]
        found = PathFinder.find_spec(name, [str(here), *sys.path])
        places = [] if found is None else [Path(p) for p in found.submodule_search_locations or ()]
        roots = [here, *(place for place in places if not place.is_relative_to(here))]
        return cls(roots)

    async def changed(self) -> list[str]:
        """Wait for a change since the last one; return the files that have changed."""
        while True:
            now = await asyncio.to_thread(self._look)
            if now != self._seen:
                now = await self._settled(now)
                files = sorted(
                    file
                    for file in now.keys() | self._seen.keys()
                    if now.get(file) != self._seen.get(file)
                )
                self._seen = now
                if files:  # else it was changed back
                    return files
            await asyncio.sleep(_EVERY)

    async def _settled(self, before: Files) -> Files:
        while True:
            await asyncio.sleep(_LULL)
            now = await asyncio.to_thread(self._look)
            if now == before:
                return now
            before = now

    def _look(self) -> Files:
        began = time.monotonic()
        found = {file: state for root in self.roots for file, state in _python_files(str(root))}
        took = time.monotonic() - began
        if took > _SLOW:
            log.warning(
                "looking at %d files for changes takes %.1f s: start it in the directory of the "
                "program alone",
                len(found),
                took,
            )
        return found


class Reloader:
    """Runs one supervisor after the other, each for the code as it is then."""

    def __init__(self, supervisor: Callable[[], Supervisor], watch: Watch) -> None:
        self._make = supervisor
        self._watch = watch
        self._now: Supervisor | None = None
        self._stop = asyncio.Event()

    async def run(self) -> Exit:
        """Until a signal comes, or until there is nothing left to do."""
        with heard(self._on_signal):
            while True:
                code = await self._run_until_changed()
                if code is not None:
                    return code

    def _on_signal(self) -> None:
        self._stop.set()
        if self._now is not None:
            self._now.stop()

    async def _run_until_changed(self) -> Exit | None:
        """None if the code has changed; else it is over."""
        self._now = self._make()
        running = asyncio.create_task(self._now.watch_over(), name="bee:supervisor")
        changed = asyncio.create_task(self._changed(), name="bee:changes")
        try:
            await asyncio.wait({running, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._end(self._now, running)
            code = running.result()
            self._now = None
            if self._stop.is_set() or not (changed.done() or code in FATAL):
                return code
            if not changed.done():
                log.error("it is started again when a file has changed")
                stop = asyncio.create_task(self._stop.wait())
                await asyncio.wait({stop, changed}, return_when=asyncio.FIRST_COMPLETED)
                stop.cancel()
            return code if self._stop.is_set() else None
        finally:
            changed.cancel()

    async def _changed(self) -> None:
        """Wait for a change after which there is Python in the files."""
        broken: set[str] = set()
        while True:
            files = await self._watch.changed()
            broken = {file for file in broken.union(files) if not _is_python(file)}
            if not broken:
                log.info("changed: %s", ", ".join(Path(file).name for file in files[:5]))
                return
            log.error("the old code goes on until that is mended")

    async def _end(self, supervisor: Supervisor, running: asyncio.Task[Exit]) -> None:
        """Stop it as a signal would. Another change hurries it: nobody waits for the old code."""
        supervisor.stop()
        hurry = asyncio.create_task(self._watch.changed(), name="bee:changes")
        await asyncio.wait({running, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            supervisor.stop()
        hurry.cancel()
        await asyncio.wait({running})


def _python_files(root: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Those below a directory that may be the program's: nothing hidden, no environments."""
    with suppress(OSError), os.scandir(root) as entries:
        found = list(entries)
        if any(entry.name == "pyvenv.cfg" for entry in found):
            return
        for entry in found:
            with suppress(OSError):  # it is gone, or not to be read
                if entry.name.startswith(".") or entry.name in _NOT_OURS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _python_files(entry.path)
                elif entry.name.endswith(".py"):
                    state = entry.stat()
                    yield entry.path, (state.st_mtime_ns, state.st_size)


def _is_python(file: str) -> bool:
    """Whether it can be read as Python, or is gone; if not, what is wrong with it is shown."""
    try:
        compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    except OSError:
        return True
    except (SyntaxError, ValueError) as error:
        log.error("%s", "".join(traceback.format_exception_only(error)).rstrip())
        return False
    return True
