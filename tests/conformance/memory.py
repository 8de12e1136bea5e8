"""The memory broker's harness: all that the suite has to be told about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bee_core.testing.clock import ManualClock
from bee_core.testing.conformance import Harness
from bee_memory import MemoryBroker


@dataclass(frozen=True)
class MemoryHarness:
    """A store of its own, and a clock that is moved instead of slept through."""

    broker: MemoryBroker
    clock: ManualClock
    queue: str = "queue"
    other_queue: str = "other"
    unit: float = 1.0

    async def advance(self, units: float) -> None:
        await self.clock.advance(units * self.unit)


@asynccontextmanager
async def memory_harness(kind: type[MemoryBroker] = MemoryBroker) -> AsyncIterator[Harness]:
    clock = ManualClock()
    async with kind(clock=clock) as broker:
        yield MemoryHarness(broker, clock)
