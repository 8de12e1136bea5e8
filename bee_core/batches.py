"""Drafts, sent: surely, and many of them in batches. While one is under way, the next is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from bee_core.errors import BrokerUnavailable, OutcomeUnknown
from bee_core.message import Draft, Keep, Sent, Ticket
from bee_core.parts import is_in_a_loop

BATCH = 1000
"""Messages in one call of a broker, at most."""
BATCH_BYTES = 1024 * 1024
"""What they carry, together, unless it is one alone."""
_STEPS = 4
"""Turns of the event loop after which a request is on its way, whatever the driver."""
_MORE_TRIES = 2
Sending: TypeAlias = Callable[[], Coroutine[Any, Any, Sequence[Sent]]]
"""Sends certain drafts."""


def batches(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """The drafts in their order, none of a batch with the id of another."""
    batch: dict[str, Draft] = {}
    size = 0
    for draft in drafts:
        full = len(batch) == BATCH or size + len(draft.body) > BATCH_BYTES
        if batch and (full or draft.id in batch):
            yield list(batch.values())
            batch, size = {}, 0
        batch[draft.id] = draft
        size += len(draft.body)
    if batch:
        yield list(batch.values())


async def send_in_turn(
    drafts: Iterable[Draft], pack: Callable[[list[Draft]], Sending]
) -> list[Ticket]:
    """Send them all. One batch is under way at a time, and nothing is when this returns or raises.

    What is wrong with a draft is raised when the batches before it have been sent.
    """
    done: list[tuple[list[str], Sequence[Sent]]] = []  # tickets are made when all are sent
    sending: asyncio.Task[Sequence[Sent]] | None = None
    ids: list[str] = []
    try:
        for batch in batches(drafts):
            send, its_ids = pack(batch), [draft.id for draft in batch]
            if sending is not None:
                done.append((ids, await sending))
                sending = None
            ids = its_ids
            if len(batch) < BATCH or not is_in_a_loop():  # nothing to make meanwhile, or nowhere
                done.append((ids, await send()))
                continue
            sending = asyncio.create_task(send(), name="bee:send")
            for _ in range(_STEPS):
                await asyncio.sleep(0)
    except asyncio.CancelledError:
        if sending is not None:
            sending.cancel()
        raise
    finally:
        if sending is not None:
            done.append((ids, await sending))
    return [Ticket(id, what) for ids, sent in done for id, what in zip(ids, sent, strict=True)]


async def send_surely(drafts: Sequence[Draft], send: Sending) -> Sequence[Sent]:
    """Send them; and again, if nobody knows whether they were sent and it does no harm."""
    try:
        return await send()
    except OutcomeUnknown as error:
        return await send_again(drafts, send, error)


async def send_again(
    drafts: Sequence[Draft], send: Sending, unknown: OutcomeUnknown
) -> Sequence[Sent]:
    """Send what may have been sent, so that it is known. Raises `unknown` if that cannot be."""
    # The ids are fixed, so a draft that keeps what is there may be sent again; one that rejects or
    # updates would meet itself.
    if all(isinstance(draft.if_taken, Keep) for draft in drafts):
        for _ in range(_MORE_TRIES):
            try:
                return await send()
            except BrokerUnavailable:  # this one did nothing, but an earlier one may have
                raise unknown from None
            except OutcomeUnknown as error:
                unknown = error
    unknown.add_note(f"ids: {', '.join(draft.id for draft in drafts[:10])}")
    raise unknown
