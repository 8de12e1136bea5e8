"""What `bee top` shows: from two looks at the store to lines.

Pure: no store, no clock, no terminal. Every text from the store is made harmless here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from bee_core.cli.common.tables import cut, table
from bee_core.cli.common.words import count, last_error, one_line, span
from bee_core.codec import kind_of
from bee_core.scaling import flow
from bee_core.stored import Holder, QueueStats, Stored

Style: TypeAlias = Literal["plain", "title", "head", "paused", "bad"]

_TITLES = (
    "queue",
    ">ready",
    ">delayed",
    ">running",
    ">blocked",
    ">archived",
    ">sent/s",
    ">done/s",
    ">oldest",
    ">empty in",
    ">workers",
    "",
)
_RUNNING_TITLES = ("queue", "kind", "id", ">age", "holder", "progress")
_FAILED_TITLES = ("queue", "kind", "id", "when", "reason", "error")
_SMALLEST = 5
"""A part that has no room for so many lines is not shown at all."""
_WELL = ("succeeded", "ruled", "cancelled")
"""These ends are no failures."""


class Glance(msgspec.Struct, frozen=True):
    """One queue, as it was at a moment."""

    queue: str
    stats: QueueStats
    workers: Sequence[Holder] = ()
    running: Sequence[Stored] = ()
    archived: Sequence[Stored] = ()
    """The newest of the archive."""


class Picture(msgspec.Struct, frozen=True):
    """All queues, as they were at a moment."""

    at: float
    """Seconds since the epoch."""
    ticks: float
    """The same moment by a clock that only goes forward."""
    queues: Sequence[Glance]


class Line(NamedTuple):
    """One line of the screen."""

    text: str
    style: Style = "plain"


def screen(
    before: Picture | None,
    now: Picture,
    *,
    where: str,
    width: int | None = None,
    height: int | None = None,
    problem: str | None = None,
) -> list[Line]:
    """All lines. With `width` and `height`, as many and as wide as fit, the most important first.

    Without an earlier picture there are no rates. `problem` is why this one is not new.
    """
    lines = [*_header(now, where, problem), Line("")]
    queues, running, failed = (list(part(before, now, width)) for part in _PARTS)
    if height is not None:
        queues = _fitting(queues, height - len(lines), "queues: name those you want to see")
        room = height - len(lines) - len(queues)
        running = _fitting(running, max(room - len(failed), room // 2), "jobs that run")
        failed = _fitting(failed, room - len(running), "failures")
    lines += [*queues, *running, *failed]
    return lines if width is None else [Line(cut(text, width), style) for text, style in lines]


def _fitting(lines: list[Line], room: int, what: str) -> list[Line]:
    """As many as there is room for; the last one says how many are left out."""
    if len(lines) <= room:
        return lines
    if room < _SMALLEST:
        return []
    left_out = len(lines) - room + 1
    return [*lines[: room - 1], Line(f"and {left_out} more {what}", "head")]


def rates(before: Picture | None, now: Picture, glance: Glance) -> dict[str, float | None]:
    """How a queue moved since the earlier picture: `sent`, `done` each second, `empty_in`."""
    earlier = None if before is None else _glance(before, glance.queue)
    if before is None or earlier is None or now.ticks - before.ticks < 0.001:
        return {"sent": None, "done": None, "empty_in": None}
    elapsed = now.ticks - before.ticks
    moved = flow(earlier.stats, glance.stats, elapsed)
    sent = max(0, glance.stats.created - earlier.stats.created) / elapsed
    drain = moved.drain_time
    return {
        "sent": sent,
        "done": moved.service,
        "empty_in": drain if math.isfinite(drain) else None,
    }


def plain(before: Picture | None, now: Picture) -> dict[str, Any]:
    """The same for programs."""
    return {"at": now.at, "queues": [_plain(before, now, glance) for glance in now.queues]}


def _plain(before: Picture | None, now: Picture, glance: Glance) -> dict[str, Any]:
    stats, moved = glance.stats, rates(before, now, glance)
    return {
        "queue": glance.queue,
        "ready": stats.ready,
        "delayed": stats.delayed,
        "running": stats.leased,
        "blocked": stats.blocked,
        "archived": sum(stats.archived.values()),
        "sent_rate": moved["sent"],
        "done_rate": moved["done"],
        "oldest_due": stats.oldest_due,
        "empty_in": moved["empty_in"],
        "paused": stats.paused,
        "workers": len(glance.workers),
    }


def _glance(picture: Picture, queue: str) -> Glance | None:
    return next((one for one in picture.queues if one.queue == queue), None)


def _header(now: Picture, where: str, problem: str | None) -> Iterator[Line]:
    workers = {worker.name for glance in now.queues for worker in glance.workers}
    clock = datetime.fromtimestamp(now.at).astimezone().strftime("%H:%M:%S")
    facts = [where, count(len(now.queues), "queue"), count(len(workers), "worker"), clock]
    yield Line("  ".join(["bee top", *facts]), "title")
    if problem is not None:
        yield Line(f"as it was then; now: {one_line(problem, 300)}", "bad")


def _queues(before: Picture | None, now: Picture, width: int | None) -> Iterator[Line]:
    if not now.queues:
        yield Line("no queues")
        return
    rows = [_queue_row(before, now, glance) for glance in now.queues]
    head, *rest = table(_TITLES, rows, width=width)
    yield Line(head, "head")
    for glance, line in zip(now.queues, rest, strict=True):
        yield Line(line, "paused" if glance.stats.paused else "plain")


def _queue_row(before: Picture | None, now: Picture, glance: Glance) -> Sequence[str]:
    stats, moved = glance.stats, rates(before, now, glance)
    return (
        glance.queue,
        str(stats.ready),
        str(stats.delayed),
        str(stats.leased),
        str(stats.blocked),
        str(sum(stats.archived.values())),
        _rate(moved["sent"]),
        _rate(moved["done"]),
        "-" if stats.oldest_due is None else span(stats.oldest_due),
        "-" if not stats.ready or moved["empty_in"] is None else span(moved["empty_in"]),
        str(len(glance.workers)),
        "paused" if stats.paused else "",
    )


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _running(_: Picture | None, now: Picture, width: int | None) -> Iterator[Line]:
    """The jobs that run, those first that have run for the longest time."""
    found = [(glance.queue, one) for glance in now.queues for one in glance.running]
    found.sort(key=lambda item: item[1].leased_at or 0.0)
    rows = [
        (
            queue,
            _kind(one),
            one_line(one.id),
            span(now.at - (one.leased_at or now.at)),
            one_line(one.holder or "?"),
            one_line(one.progress or ""),
        )
        for queue, one in found
    ]
    yield from _part("running", _RUNNING_TITLES, rows, width, "plain")


def _failed(_: Picture | None, now: Picture, width: int | None) -> Iterator[Line]:
    """What failed last, the newest first."""
    found = [
        (glance.queue, one)
        for glance in now.queues
        for one in glance.archived
        if one.note is not None and one.note.reason not in _WELL
    ]
    found.sort(key=lambda item: -(item[1].archived_at or 0.0))
    rows = [
        (
            queue,
            _kind(one),
            one_line(one.id),
            f"{span(now.at - (one.archived_at or now.at))} ago",
            one.note.reason if one.note else "",
            last_error(one),
        )
        for queue, one in found
    ]
    yield from _part("last failures", _FAILED_TITLES, rows, width, "bad")


def _part(
    title: str,
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    style: Style,
) -> Iterator[Line]:
    if not rows:
        return
    head, *rest = table(titles, rows, width=width)
    yield Line("")
    yield Line(title, "title")
    yield Line(head, "head")
    for line in rest:
        yield Line(line, style)


def _kind(one: Stored) -> str:
    return one_line(kind_of(one.headers, one.body) or "?", 30)


_PARTS = (_queues, _running, _failed)
