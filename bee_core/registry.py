"""From a URL to a broker: the scheme names an entry point in the group `bee.brokers`.

The entry point is a class with a `from_url(Url)` class method. It is imported when its scheme
is used and not before, so a program pays only for the backend it has.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from bee_core.broker import Store
from bee_core.errors import UnknownScheme
from bee_core.url import Url, as_url, redact

GROUP = "bee.brokers"


def connect(url: str) -> Store:
    """The broker for a URL. Does no I/O: it connects when it is first used.

    It is an async context manager; leaving it closes the connections.
    """
    address = Url(url := as_url(url))
    broker: Store = backend(address.scheme, shown=redact(url)).from_url(address)
    return broker


def backend(scheme: str, *, shown: str | None = None) -> Any:
    """The broker class behind a scheme."""
    for found in entry_points(group=GROUP, name=scheme):
        return found.load()
    known = ", ".join(sorted({f"{found.name}://" for found in entry_points(group=GROUP)}))
    what = shown or scheme if scheme else "a URL that is empty, or has no scheme"
    raise UnknownScheme(f"no broker for {what}; known schemes: {known or 'none'}")
