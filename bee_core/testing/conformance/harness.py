"""What the suite has to be told about a backend: a store, two names, and how time passes.

Everything else it finds out through the verbs of the contract. Nothing here knows a
backend, and nothing in the suite imports pytest: a test is an async method that raises
AssertionError, so any runner will do.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bee_core.broker import Store


class Harness(Protocol):
    """A store that one test has for itself, and the means to let time pass in it."""

    @property
    def broker(self) -> Store:
        """An open broker. The harness closes it; the suite closes only clones it made."""
        ...

    @property
    def queue(self) -> str:
        """The name of a queue that nobody else uses; at most 36 characters.

        The suite also uses names that begin with this one.
        """
        ...

    @property
    def other_queue(self) -> str:
        """Another one, on the same store."""
        ...

    @property
    def unit(self) -> float:
        """The length of the suite's unit of time, in seconds of the store's clock.

        With a clock that can be moved, any number. With a real one, the longest time that a
        round trip takes on a bad day, and at least 0.05: no test relies on less than two units.
        """
        ...

    async def advance(self, units: float) -> None:
        """Let that many units of time pass: move the clock, or sleep."""
        ...


class Conformance:
    """What every part of the suite builds on."""

    def harness(self) -> AbstractAsyncContextManager[Harness]:
        """A fresh harness for one test. The one method a backend has to write."""
        raise NotImplementedError("override harness() with an async context manager")
