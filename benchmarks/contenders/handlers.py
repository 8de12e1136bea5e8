"""The four handlers, as a coroutine function and as a plain one.

A contender gives the one that was asked for to its library as an ordinary task function. All four
are sent under one name, since a worker killed in one of them leaves its job to a worker of another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from meter import Meter

SHORT = 0.005
"""Seconds that a handler waits which waits for something."""
FOREVER = 3600.0
"""Seconds that a handler waits which is to be killed."""


def coroutine(meter: Meter, kind: str) -> Callable[[dict[str, Any]], Awaitable[None]]:
    """The handler of this kind, for a library that awaits it."""

    async def noop(payload: dict[str, Any]) -> None:
        meter.done()

    async def sleep(payload: dict[str, Any]) -> None:
        await asyncio.sleep(SHORT)
        meter.done()

    async def late(payload: dict[str, Any]) -> None:
        meter.late(payload["sent"])
        meter.done()

    async def hang(payload: dict[str, Any]) -> None:
        meter.began()
        await asyncio.sleep(FOREVER)

    return {"noop": noop, "sleep": sleep, "late": late, "hang": hang}[kind]


def plain(meter: Meter, kind: str) -> Callable[[dict[str, Any]], None]:
    """The handler of this kind, for a library that calls it."""

    def noop(payload: dict[str, Any]) -> None:
        meter.done()

    def sleep(payload: dict[str, Any]) -> None:
        time.sleep(SHORT)
        meter.done()

    def late(payload: dict[str, Any]) -> None:
        meter.late(payload["sent"])
        meter.done()

    def hang(payload: dict[str, Any]) -> None:
        meter.began()
        time.sleep(FOREVER)

    return {"noop": noop, "sleep": sleep, "late": late, "hang": hang}[kind]
