"""Showing what happens to a few jobs: a table that redraws itself, or plain lines in a pipe."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

COLOURS = {
    "waits": "\x1b[2m",
    "runs": "\x1b[36m",
    "again": "\x1b[33m",
    "done": "\x1b[32m",
    "archived": "\x1b[31m",
    "cancelled": "\x1b[35m",
}
RESET = "\x1b[0m"


@dataclass
class Row:
    """One job on the screen."""

    label: str
    state: str = "waits"
    detail: str = ""
    runs: int = 0

    def text(self) -> str:
        runs = f"{self.runs} run{'s' if self.runs != 1 else ''}"
        return f"{self.label:<34} {self.state:<10} {runs:<7} {self.detail}"


@dataclass
class Display:
    """Rows by job id. `live` redraws them in place; otherwise each change is a line."""

    live: bool
    out: TextIO = field(default_factory=lambda: sys.stdout)
    rows: dict[str, Row] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    _drawn: int = 0

    def add(self, id: str, label: str, *, detail: str = "") -> None:
        """Show another job."""
        self.rows[id] = Row(label, detail=detail)
        self._changed(id)

    def change(self, id: str, state: str, detail: str = "", *, ran: bool = False) -> None:
        """A job is in another state."""
        row = self.rows.setdefault(id, Row(id))
        row.state, row.detail = state, detail
        row.runs += ran
        self._changed(id)

    def say(self, line: str = "") -> None:
        """A line below everything."""
        self.out.write(line + "\n")
        self.out.flush()

    def _changed(self, id: str) -> None:
        if self.live:
            self._draw()
        else:
            elapsed = time.monotonic() - self.started
            self.say(f"{elapsed:5.2f}s  {self.rows[id].text()}".rstrip())

    def _draw(self) -> None:
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        lines = [f"{COLOURS[row.state]}{row.text()}{RESET}\x1b[K" for row in self.rows.values()]
        self.out.write(back + "\n".join(lines) + "\n")
        self.out.flush()
        self._drawn = len(lines)
