"""Runs the suite against any kind of broker, without pytest, one test after the other."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from bee_core.testing.conformance import BrokerConformance, Harness
from bee_memory import MemoryBroker

from .memory import memory_harness

GUARD = 3.0
"""Real seconds after which a test that hangs counts as failed. A good one takes milliseconds."""


class Bound(BrokerConformance):
    """The suite, bound to one kind of broker."""

    def __init__(self, harness: Callable[[], AbstractAsyncContextManager[Harness]]) -> None:
        self._harness = harness

    def harness(self) -> AbstractAsyncContextManager[Harness]:
        return self._harness()


def failures(
    kind: type[MemoryBroker], first: Sequence[str] = ()
) -> Iterator[tuple[str, BaseException]]:
    """The tests that fail with this kind of broker, as they are found."""
    return failures_of(Bound(lambda: memory_harness(kind)), first)


def failures_of(
    suite: BrokerConformance,
    first: Sequence[str] = (),
    *,
    guard: float = GUARD,
    until: float = math.inf,
) -> Iterator[tuple[str, BaseException]]:
    """The same for a suite that is bound already, as far as it gets by then (`time.monotonic`)."""
    for name in names(first):
        if time.monotonic() > until:
            return
        try:
            asyncio.run(asyncio.wait_for(getattr(suite, name)(), guard))
        except Exception as error:  # whatever goes wrong, the test has noticed
            yield name, error


def names(first: Sequence[str] = ()) -> list[str]:
    """The tests that the genuine broker passes; those named in `first`, or their modules, first."""
    parts = sorted(BrokerConformance.__mro__, key=lambda part: _module(part) not in first)
    found = [name for part in parts for name in vars(part) if name.startswith("test_")]
    return sorted(found, key=lambda name: name not in first)


def _module(part: type) -> str:
    return part.__module__.rpartition(".")[2]
