"""Many drafts, sent in batches: while one is under way, the next is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from bee_core.message import Draft, Ticket
from bee_core.parts import is_in_a_loop

BATCH = 1000
"""Drafts in one send, at most."""
_BYTES = 1024 * 1024
_STEPS = 4
"""Turns of the event loop after which a request is on its way, whatever the driver."""


def batches(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """The drafts in their order, none of a batch with the id of another."""
    batch: dict[str, Draft] = {}
    size = 0
    for draft in drafts:
        full = len(batch) == BATCH or size + len(draft.body) > _BYTES
        if batch and (full or draft.id in batch):
            yield list(batch.values())
            batch, size = {}, 0
        batch[draft.id] = draft
        size += len(draft.body)
    if batch:
        yield list(batch.values())


async def send_in_turn(
    drafts: Iterable[Draft], send: Callable[[list[Draft]], Coroutine[Any, Any, list[Ticket]]]
) -> list[Ticket]:
    """Send them all. One batch is under way at a time, and nothing is when this returns or raises.

    What is wrong with a draft is raised when the batches before it have been sent.
    """
    tickets: list[Ticket] = []
    sending: asyncio.Task[list[Ticket]] | None = None
    try:
        for batch in batches(drafts):
            if sending is not None:
                tickets += await sending
                sending = None
            if len(batch) < BATCH or not is_in_a_loop():  # nothing to make meanwhile, or nowhere
                tickets += await send(batch)
                continue
            sending = asyncio.create_task(send(batch), name="bee:send")
            for _ in range(_STEPS):
                await asyncio.sleep(0)
    except asyncio.CancelledError:
        if sending is not None:
            sending.cancel()
        raise
    finally:
        if sending is not None:
            tickets += await sending
    return tickets
