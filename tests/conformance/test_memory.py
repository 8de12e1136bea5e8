"""The memory broker keeps the contract."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from bee_core.testing.conformance import BrokerConformance, Harness

from .memory import memory_harness


class TestMemoryBroker(BrokerConformance):
    def harness(self) -> AbstractAsyncContextManager[Harness]:
        return memory_harness()
