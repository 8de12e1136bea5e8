"""Runs the suite against any kind of MemoryBroker, without pytest, one test after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from bee_core.testing.conformance import BrokerConformance, Harness
from bee_memory import MemoryBroker

from .memory import memory_harness

GUARD = 3.0
"""Real seconds after which a test that hangs counts as failed. A good one takes milliseconds."""


class Bound(BrokerConformance):
    """The suite, bound to one kind of broker."""

    def __init__(self, kind: type[MemoryBroker]) -> None:
        self._kind = kind

    def harness(self) -> AbstractAsyncContextManager[Harness]:
        return memory_harness(self._kind)


def failures(
    kind: type[MemoryBroker], first: Sequence[str] = ()
) -> Iterator[tuple[str, BaseException]]:
    """The tests that fail with this kind of broker, as they are found."""
    suite = Bound(kind)
    for name in names(first):
        try:
            asyncio.run(asyncio.wait_for(getattr(suite, name)(), GUARD))
        except Exception as error:  # whatever goes wrong, the test has noticed
            yield name, error


def names(first: Sequence[str] = ()) -> list[str]:
    """The tests that the genuine broker passes; those of the modules named `first` come first."""
    parts = sorted(BrokerConformance.__mro__, key=lambda part: _module(part) not in first)
    return [name for part in parts for name in vars(part) if name.startswith("test_")]


def _module(part: type) -> str:
    return part.__module__.rpartition(".")[2]
