"""More than one script may take is taken page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST = 1000
"""Messages in one script: more would hold up the server's other clients."""


def paged(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, as many at a time as a script may take."""
    return (items[start : start + MOST] for start in range(0, len(items), MOST))


def at(replies: Sequence[Sequence[int]], items: Sequence[T]) -> set[T]:
    """The items that the scripts answered with, each by its position in its page."""
    return {items[n * MOST + index] for n, reply in enumerate(replies) for index in reply}
