"""Who works on a queue: what a worker says of itself, and that it goes on saying so."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

import msgspec

from bee_core.broker import Broker
from bee_core.checks import LONGEST_ABOUT
from bee_core.clock import Clock
from bee_core.errors import BrokerClosed, BrokerMisconfigured, BrokerUnavailable
from bee_core.stored import Holder
from bee_core.trouble import own_cancellation

EVERY = 10.0
"""Seconds between two announcements."""
HOLDS = 3 * EVERY
"""Seconds after which a worker that is silent is taken for gone."""


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself."""

    host: str
    pid: int
    version: str
    """Of bee."""
    concurrency: int
    kinds: tuple[str, ...] | None = None
    """The kinds of job it knows; None if there are too many to tell."""


def presence_here(concurrency: int, kinds: Sequence[str]) -> Presence:
    """What a worker in this process says of itself."""
    return Presence(
        host=socket.gethostname(),
        pid=os.getpid(),
        version=_version(),
        concurrency=concurrency,
        kinds=tuple(kinds),
    )


def presence_of(holder: Holder) -> Presence | None:
    """What somebody has said of itself, if that was a worker of bee and holds still."""
    if holder.until is None:
        return None
    try:
        return msgspec.json.decode(holder.about, type=Presence)
    except msgspec.MsgspecError:
        return None


class Announcer:
    """Announces one worker for as long as it runs. Nothing but `workers` depends on it."""

    def __init__(
        self,
        broker: Broker,
        queue: str,
        holder: str,
        *,
        clock: Clock,
        in_trouble: Callable[[], bool],
        on_trouble: Callable[[str, Exception], None],
        on_recovered: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._queue = queue
        self._holder = holder
        self._clock = clock
        self._in_trouble = in_trouble
        self._on_trouble = on_trouble
        self._on_recovered = on_recovered
        self._told = False
        self.presence: Presence | None = None
        """What to say. It may change."""

    async def run(self) -> None:
        """Say it again and again. That it fails is told, unless the worker is in trouble anyway."""
        while True:
            if self.presence is not None:
                await self._announce(written(self.presence))
            await self._clock.sleep(EVERY)

    async def withdraw(self) -> None:
        """Say that it is gone. If that fails it will be forgotten by itself."""
        if self.presence is not None:
            await self._broker.announce(self._queue, self._holder, about="", duration=0.0)

    async def _announce(self, about: str) -> None:
        try:
            await self._broker.announce(self._queue, self._holder, about=about, duration=HOLDS)
        except BaseException as error:
            if own_cancellation(error):
                raise
            if isinstance(error, BrokerMisconfigured | BrokerClosed):
                return  # the worker ends for the same reason, and says so
            if not self._told and not self._in_trouble():
                self._told = True
                shown = error if isinstance(error, Exception) else BrokerUnavailable(repr(error))
                self._on_trouble("announce", shown)
            return
        if self._told:
            self._told = False
            self._on_recovered("announce")


def written(presence: Presence) -> str:
    """As the store keeps it; without the kinds, if they are too many."""
    text = msgspec.json.encode(presence).decode()
    if len(text) > LONGEST_ABOUT:
        text = msgspec.json.encode(msgspec.structs.replace(presence, kinds=None)).decode()
    return text


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("bee-jobs")
    except PackageNotFoundError:  # it is imported from somewhere, and was never installed
        return "unknown"
