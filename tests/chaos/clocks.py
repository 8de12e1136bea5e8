"""Clocks that jump: processes under libfaketime, and the file that says what time they believe.

Without the library (Debian: `apt install faketime`) there are no jumps, and the report says so. It
may also be named by BEE_FAKETIME.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

HOUR = 3600


def library() -> Path | None:
    """libfaketime, if this machine has it."""
    named = os.environ.get("BEE_FAKETIME")
    found = [Path(named)] if named else sorted(Path("/usr/lib").glob("*/faketime/*MT.so.1"))
    return found[0] if found else None


class Clocks:
    """That of the server, and that of all workers."""

    def __init__(self) -> None:
        found = library()
        assert found is not None, "there is no libfaketime"
        self.server, self.workers = Clock(found), Clock(found)
        self._latest = 0

    def jump(self, chance: random.Random) -> None:
        """Either of them is an hour or a day off, at most."""
        if chance.random() < 0.5:
            self.workers.jump(chance.randint(-24 * HOUR, 24 * HOUR))
        else:
            seconds = chance.randint(-HOUR, HOUR)
            self.server.jump(seconds)
            self._latest = max(self._latest, seconds)

    def calm(self) -> None:
        """From now on they go on as clocks do. The server's has to be past all that it promised."""
        self.server.jump(self._latest + HOUR // 60)

    def end(self) -> None:
        """Nobody looks at them any more."""
        self.server.end()
        self.workers.end()


class Clock:
    """The time of day of some processes: off by so many seconds."""

    def __init__(self, library: Path) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="bee-clock-"))
        self._directory.chmod(0o755)  # PostgreSQL may be somebody else
        self._file = self._directory / "offset"
        self._library = library
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """From now on it is off by that much."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a new process believe this clock. Durations are not touched."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",  # or a backend of PostgreSQL would keep its postmaster's
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @property
    def prefix(self) -> list[str]:
        """A command that becomes another one, which believes this clock."""
        return ["env", *(f"{name}={value}" for name, value in self.environment.items())]

    def end(self) -> None:
        """Nobody looks at it any more."""
        shutil.rmtree(self._directory)
