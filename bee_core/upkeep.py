"""What goes on in a worker beside its jobs.

Jobs run without any of it. But schedules are to be in the store (planner), others to know who works
on the queue (announcer), observers to hear what ails the store (checkup), and the number of slots
is to be right (tuner).
"""

from __future__ import annotations

import asyncio
from typing import Any

from bee_core.auto import Auto, Tuner, first_and_most
from bee_core.broker import Examined
from bee_core.checkup import Checkup
from bee_core.clock import Clock
from bee_core.errors import BrokerUnavailable
from bee_core.fetcher import Fetcher
from bee_core.handlers import Handlers
from bee_core.held import Held
from bee_core.parts import Parts
from bee_core.planner import Planner
from bee_core.presence import Announcer, presence_here
from bee_core.queue import Queue
from bee_core.reporter import Reporter
from bee_core.trouble import Trouble, own_cancellation

_WITHDRAW = 1.0
"""Seconds for saying that the worker is gone."""


class Upkeep:
    """Starts what one worker needs of it, with its other parts."""

    def __init__(
        self,
        queue: Queue[Any],
        holder: str,
        handlers: Handlers[Any],
        *,
        size: int | Auto,
        held: Held,
        fetcher: Fetcher,
        clock: Clock,
        trouble: Trouble,
        report: Reporter,
    ) -> None:
        self._broker = queue.broker
        self._handlers = handlers
        self._size = size
        self._held = held
        self._fetcher = fetcher
        self._clock = clock
        self._trouble = trouble
        self._report = report
        self.planner = Planner(
            self._broker,
            queue.name,
            handlers.schedules.values(),
            clock=clock,
            trouble=trouble,
            on_planned=fetcher.look_again,
        )
        self._announcer = Announcer(
            self._broker,
            queue.name,
            holder,
            clock=clock,
            in_trouble=lambda: bool(trouble.failures),
            on_trouble=report.trouble,
            on_recovered=report.recovered,
        )

    def start(self, parts: Parts) -> None:
        """Keep all of it going."""
        if isinstance(self._broker, Examined):
            parts.start("bee:checkup", self._checkup(self._broker).run)
        if not self.planner.planned:
            parts.start("bee:planner", self.planner.run)
        _, most = first_and_most(self._size)
        self._announcer.presence = presence_here(most, self._handlers.kinds)
        parts.start("bee:announcer", self._announcer.run)
        if isinstance(self._size, Auto):
            self._tuner(self._size).start(parts)

    async def withdraw(self) -> None:
        """Leave the list of workers, if the broker answers."""
        try:
            async with asyncio.timeout(_WITHDRAW):
                await self._announcer.withdraw()
        except BaseException as error:
            if own_cancellation(error):
                raise
            if not self._trouble.failures:
                shown = error if isinstance(error, Exception) else BrokerUnavailable(repr(error))
                self._report.trouble("announce", shown)

    def _checkup(self, broker: Examined) -> Checkup:
        report = self._report
        return Checkup(
            broker,
            self._clock,
            on_finding=report.ailment,
            on_trouble=report.trouble,
            on_recovered=report.recovered,
        )

    def _tuner(self, auto: Auto) -> Tuner:
        return Tuner(
            auto,
            self._clock,
            size=lambda: self._held.slots.size,
            load=lambda: self._held.slots.load(hungry=self._fetcher.hungry),
            resize=self._resize,
            on_changed=self._report.concurrency_changed,
        )

    def _resize(self, size: int) -> None:
        self._held.resize(size)
        self._fetcher.made_room()
