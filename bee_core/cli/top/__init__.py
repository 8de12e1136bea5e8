"""`bee top`: the queues as they move. How it looks is in `view.py`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import click

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, json_option, print_json, url_option
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues, look_at_each
from bee_core.cli.common.tables import is_terminal
from bee_core.cli.common.units import as_seconds
from bee_core.cli.top.terminal import Screen
from bee_core.cli.top.view import Glance, Line, Picture, plain, screen
from bee_core.config import broker_url
from bee_core.errors import BrokerError, BrokerMisconfigured
from bee_core.stored import State
from bee_core.url import redact

T = TypeVar("T")

_RUNNING = 20
_ARCHIVED = 10
"""As many of each queue are looked at."""
_RESET = "\x1b[0m"
_COLOURS = {"title": "\x1b[1m", "head": "\x1b[2m", "paused": "\x1b[33m", "bad": "\x1b[31m"}


@click.command(
    short_help="Watch the queues, live.",
    epilog=examples(
        "bee top",
        "bee top mail films --interval 5s",
        "bee top --once",
        "bee top --json --interval 10s >> queues.ndjson",
    ),
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option(
    "--interval", callback=as_seconds, default="1s", metavar="TIME", help="Between two looks: 1s."
)
@click.option("--once", is_flag=True, help="Look twice, print, and end.")
@url_option
@json_option
def top(
    queues: tuple[str, ...], interval: float, once: bool, url: str | None, as_json: bool
) -> None:
    """Watch the queues: what waits, what comes and goes, what runs, what failed last.

    On a terminal it is drawn anew after each look, until q or Ctrl-C. In a pipe each look is
    printed below the last. Rates are those between two looks. Without names it is every queue that
    holds something or is paused.

    \b
    Exit codes:
      0  ended as asked
      1  there is no such queue
      2  wrong use
      3  the store does not answer, or refuses
    """
    if interval < 0.1:
        raise click.BadParameter("at least 100ms", param_hint="--interval")
    watch = _Watch(queues, interval, as_json, _where(url))

    async def go(store: Store) -> int | None:
        await check_queues(store, queues)
        if once or as_json or not is_terminal(sys.stdout):
            await watch.print(store, once)
            return None
        return await watch.draw(store)

    try:
        ended_by = ask(url, go)
    except KeyboardInterrupt:  # in a pipe
        ended_by = signal.SIGINT
    raise SystemExit(0 if ended_by is None else 128 + ended_by)


class _Watch:
    """Looks at a store again and again."""

    def __init__(self, queues: Sequence[str], interval: float, as_json: bool, where: str) -> None:
        self._queues = queues
        self._interval = interval
        self._as_json = as_json
        self._where = where

    async def print(self, store: Store, once: bool) -> None:
        """Each look below the last."""
        before = await take(store, self._queues)
        while True:
            await asyncio.sleep(self._interval)
            now = await take(store, self._queues)
            if self._as_json:
                print_json(plain(before, now))
            else:
                for line in screen(before, now, where=self._where):
                    click.echo(line.text)
                if not once:
                    click.echo()
            if once:
                return
            before = now

    async def draw(self, store: Store) -> int | None:
        """On the terminal, until told to end. Return the signal that did so, if one did."""
        before, now = None, await take(store, self._queues)
        problem: str | None = None
        with Screen() as terminal:
            while True:
                again = time.monotonic() + self._interval
                while not terminal.ended and (left := again - time.monotonic()) > 0:
                    width, height = shutil.get_terminal_size()
                    lines = screen(
                        before,
                        now,
                        where=self._where,
                        width=width,
                        height=height,
                        problem=problem,
                    )
                    terminal.draw(_painted(line) for line in lines)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(terminal.wake.wait(), left)
                    terminal.wake.clear()
                if terminal.ended:
                    return terminal.signal
                try:
                    taken = await _unless_ended(terminal, take(store, self._queues))
                    if taken is None:
                        return terminal.signal
                    before, now, problem = now, taken, None
                except BrokerMisconfigured:
                    raise
                except BrokerError as error:  # it may come back, and is asked again
                    problem = str(error)


async def _unless_ended(terminal: Screen, looking: Coroutine[Any, Any, T]) -> T | None:
    """What comes of it; None if the user has had enough meanwhile: the store may be silent."""
    look = asyncio.create_task(looking)
    try:
        while not terminal.ended and not look.done():
            terminal.wake.clear()
            woken = asyncio.create_task(terminal.wake.wait())
            await asyncio.wait({look, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
        return None if terminal.ended else look.result()
    finally:
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)


async def take(store: Store, queues: Sequence[str]) -> Picture:
    """A picture of these queues, or of all."""

    async def look(queue: str) -> Glance:
        stats = await store.stats(queue)
        workers = await store.workers(queue)
        running = await store.scan(queue, State.LEASED, limit=_RUNNING)
        archived = await store.scan(queue, State.ARCHIVED, limit=_ARCHIVED)
        return Glance(queue, stats, workers, running.items, archived.items)

    glances = await look_at_each(store, queues, look)
    return Picture(time.time(), time.monotonic(), glances)


def _painted(line: Line) -> str:
    colour = "" if os.environ.get("NO_COLOR") else _COLOURS.get(line.style, "")
    return f"{colour}{line.text}{_RESET}" if colour else line.text


def _where(url: str | None) -> str:
    try:
        return redact(broker_url(url))
    except ValueError:  # said when it is asked
        return ""
