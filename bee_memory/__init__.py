"""bee's broker in memory: for tests, for trying things out, and as the specification."""

from bee_memory.broker import MemoryBroker

__all__ = ["MemoryBroker"]
