"""What `bee move` says: a bar in a terminal, lines elsewhere, or JSON; and a table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from bee_core.cli.common.tables import is_terminal, table
from bee_core.cli.common.telling import Progress as Bar
from bee_core.cli.common.telling import say
from bee_core.moving.events import Begun, Event, Found, Moved, Progress, Setback, Waiting, Why
from bee_core.url import redact

_EVERY = 5.0
"""Seconds from one line of progress to the next, where there is no terminal."""
_TITLES = ("queue", ">found", ">moved", ">already there", ">left")
_WHY: dict[Why, str] = {
    "running": "still running",
    "conflict": "in conflict: another job of that id is at the destination",
    "refused": "refused by the destination",
    "group": "of a group that stays",
    "new": "sent or changed meanwhile",
}


class View:
    """Shows events as they come. What goes on is told on stderr, what came of it on stdout.

    If nobody reads it any more, the move goes on all the same.
    """

    def __init__(self, source: str, *, as_json: bool, dry_run: bool) -> None:
        self._source = redact(source)
        self._as_json = as_json
        self._dry_run = dry_run
        self._bar: Bar | None = None
        self._begun: Begun | None = None
        self._last: Progress | None = None
        self._told_at = 0.0

    def plan(self, plan: Sequence[Found]) -> None:
        """Show what there is."""
        for found in plan:
            self.tell(found)
        if not plan:
            self._say("nothing to move: the source holds no queue")

    def tell(self, event: Event) -> None:
        """Show one event."""
        if self._as_json:
            say(msgspec.json.encode(event))
        match event:
            case Found():
                self._say(f"{event.queue}: {_counts(event)}")
            case Begun():
                self._begun, self._last, self._told_at = event, None, time.monotonic()
            case Waiting(queue=queue, leased=leased, seconds=seconds):
                self._say(f"{queue}: paused; waiting up to {seconds:g} s for {leased} running")
            case Progress():
                self._last = event
                self._draw(event)
            case Setback(queue=queue, where=where, error=error):
                self._end_bar()
                self._say(f"{queue}: the {where} is in trouble, trying again: {error}")
            case Moved():
                self._end_bar()
                self._begun = None
            case _:
                assert_never(event)

    def end(self, reports: Sequence[Moved]) -> None:
        """What came of it all."""
        if self._as_json:
            complete = all(report.is_complete for report in reports)
            moved = sum(report.moved for report in reports)
            left = sum(sum(report.left.values()) for report in reports)
            end = {"event": "end", "complete": complete, "moved": moved, "left": left}
            say(msgspec.json.encode(end))
            return
        for line in _table(reports):
            say(line)
        for report in reports:
            for line in _remarks(report, self._source):
                say(line)

    def standing(self) -> str:
        """In what state a move that was cut short has left everything."""
        self._end_bar()
        if self._begun is None:
            return ""
        queue, moved = self._begun.queue, 0 if self._last is None else self._last.moved
        return (
            f"{moved} of {self._begun.found} of {queue} are moved, the others are where they were. "
            f"{queue} is paused at the source: run the same command again to go on, or "
            f"'bee resume {queue} --url {self._source}' to let it work there"
        )

    def _say(self, line: str) -> None:
        if not self._as_json:
            say(line, err=not self._dry_run)

    def _draw(self, event: Progress) -> None:
        if self._as_json:
            return
        text = f"{event.queue}: {event.moved} of {event.found}"
        if is_terminal(sys.stderr):
            self._bar = self._bar or Bar(event.found)
            self._bar.show(event.moved, text)
        elif time.monotonic() - self._told_at >= _EVERY:
            self._told_at = time.monotonic()
            self._say(text)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.clear()
            self._bar = None


def _counts(found: Found) -> str:
    parts = [
        f"{getattr(found, state)} {state}"
        for state in ("ready", "delayed", "leased", "blocked")
        if getattr(found, state)
    ]
    parts += [f"{number} archived ({reason})" for reason, number in sorted(found.archived.items())]
    paused = ["paused"] if found.paused else []
    return ", ".join([*(parts or ["nothing"]), *paused])


def _table(reports: Sequence[Moved]) -> Iterator[str]:
    rows = [
        (r.queue, str(r.found), str(r.moved), str(r.already), str(sum(r.left.values())))
        for r in reports
    ]
    return table(_TITLES, rows) if rows else iter(())


def _remarks(report: Moved, source: str) -> list[str]:
    """What else there is to say of a queue, and what to do."""
    queue, lines = report.queue, []
    for why, number in report.left.items():
        lines.append(f"{queue}: {number} {_WHY[why]}{_which(report, why)}")
    if report.gone:
        lines.append(
            f"{queue}: {report.gone} ended at the source as they were copied; the copies may run"
        )
    if report.doubled:
        ids = ", ".join(report.doubled)
        lines.append(f"{queue}: begun at the destination and changed at the source: {ids}")
    resume = f"bee resume {queue} --url {source}"
    if report.left:
        lines.append(f"{queue} is paused at the source: run this again, or: {resume}")
    elif report.paused:
        lines.append(f"{queue} was paused at the source before, and still is: {resume}")
    if report.destination_paused:
        lines.append(f"{queue} is paused at the destination: nothing of it runs there")
    return lines


def _which(report: Moved, why: Why) -> str:
    ids = {"conflict": report.conflicts, "refused": report.refused}.get(why, ())
    if not ids:
        return ""
    more = ", ..." if len(ids) < report.left[why] else ""
    because = f" ({report.refusal})" if why == "refused" else ""
    return f": {', '.join(ids)}{more}{because}"
