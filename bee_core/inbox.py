"""What was leased a moment ago and is not opened yet.

When as many messages came as were asked for, there is probably more to be had. Then the next lease
is to be under way while these are decoded and started, so they are opened in the next turn of the
event loop, after whoever has leased them has gone on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bee_core.message import Lease


class Inbox:
    """Hands leases on to `opened`, each batch with the time at which it was asked for."""

    def __init__(
        self,
        opened: Callable[[Sequence[Lease], float], None],
        on_failure: Callable[[str, BaseException], None],
    ) -> None:
        self._opened = opened
        self._on_failure = on_failure
        self._batches: list[tuple[Sequence[Lease], float]] = []
        self.count = 0
        """Those that are here."""

    def add(self, leases: Sequence[Lease], asked_at: float, *, soon: bool) -> None:
        """Open them, soon or at once."""
        self._batches.append((leases, asked_at))
        self.count += len(leases)
        if soon:
            asyncio.get_running_loop().call_soon(self.open)
        else:
            self.open()

    def open(self) -> None:
        """All that are here."""
        batches, self._batches, self.count = self._batches, [], 0
        try:
            for leases, asked_at in batches:
                self._opened(leases, asked_at)
        except Exception as error:  # none is to be held for ever because it cannot be opened
            self._on_failure("taking messages", error)

    def clear(self) -> None:
        """Forget them: their leases run out."""
        self._batches.clear()
        self.count = 0
