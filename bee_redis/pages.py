"""More than one script may take is taken page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

MOST = 1000
"""Messages in one script: more would hold up the server's other clients."""

LARGEST = 8 * 1024 * 1024
"""Bytes in one script of a verb that has no need to do all at once."""

Part: TypeAlias = str | int | bytes


def paged(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, as many at a time as a script may take."""
    return (items[start : start + MOST] for start in range(0, len(items), MOST))


def paged_by_size(units: Sequence[Sequence[Part]]) -> Iterator[Sequence[Sequence[Part]]]:
    """The same for arguments that may be large; those of one message stay together."""
    page: list[Sequence[Part]] = []
    size = 0
    for unit in units:
        more = sum(len(part) for part in unit if not isinstance(part, int))
        if page and (len(page) == MOST or size + more > LARGEST):
            yield page
            page, size = [], 0
        page.append(unit)
        size += more
    if page:
        yield page


def at(replies: Sequence[Sequence[int]], items: Sequence[T]) -> set[T]:
    """The items that the scripts answered with, each by its position in its page."""
    return {items[n * MOST + index] for n, reply in enumerate(replies) for index in reply}
