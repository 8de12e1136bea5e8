"""Many drafts sent in batches: in order, one at a time, and the next one made meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from bee_core.batches import BATCH, Sending, batches, send_in_turn
from bee_core.message import Draft, Sent


def drafts(count: int, *, size: int = 1) -> Iterator[Draft]:
    return (Draft(f"m{number}", b"x" * size) for number in range(count))


class Store:
    """Takes a while for each batch; fails for the one it is told to."""

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.batches: list[list[str]] = []
        self.packed: list[int] = []  # for each how many were under way
        self.under_way = self.most = self.ended = 0
        self.fails_at = fails_at

    def pack(self, batch: list[Draft]) -> Sending:
        self.packed.append(self.under_way)
        return partial(self._send, batch)

    async def _send(self, batch: list[Draft]) -> list[Sent]:
        self.batches.append([draft.id for draft in batch])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0.01)
        finally:
            self.under_way -= 1
        if len(self.batches) == self.fails_at:
            raise ConnectionError("gone")
        self.ended += 1
        return [Sent.CREATED for _ in batch]


def test_a_batch_is_full_at_a_thousand_drafts_or_a_mebibyte() -> None:
    assert [BATCH, BATCH, 1] == [len(batch) for batch in batches(drafts(2 * BATCH + 1))]
    assert [2, 2, 1] == [len(batch) for batch in batches(drafts(5, size=400_000))]


def test_an_id_that_comes_again_begins_a_batch() -> None:
    one, two = Draft("a", b"1"), Draft("a", b"2")

    assert [[one], [two]] == list(batches([one, two]))


async def test_all_are_sent_in_their_order_one_batch_at_a_time() -> None:
    store = Store()

    tickets = await send_in_turn(drafts(3 * BATCH + 5), store.pack)

    expected = [f"m{number}" for number in range(3 * BATCH + 5)]
    assert expected == [id for batch in store.batches for id in batch]
    assert expected == [ticket.id for ticket in tickets]
    assert store.most == 1


async def test_the_next_batch_is_made_while_one_is_under_way() -> None:
    store, seen = Store(), []

    def watched() -> Iterator[Draft]:
        for draft in drafts(2 * BATCH):
            seen.append(store.under_way)
            yield draft

    await send_in_turn(watched(), store.pack)

    assert [0] * (BATCH + 1) == seen[: BATCH + 1]  # the one more that showed that it was full
    assert {1} == set(seen[BATCH + 1 :])
    assert [0, 1] == store.packed


class Body(bytes):
    """One that knows how many of them there are."""

    alive = most = 0

    def __init__(self, *_: object) -> None:
        Body.alive += 1
        Body.most = max(Body.most, Body.alive)

    def __del__(self) -> None:
        Body.alive -= 1


async def test_what_was_sent_is_not_kept_until_the_end() -> None:
    many = (Draft(f"m{number}", Body(b"x")) for number in range(9 * BATCH))

    tickets = await send_in_turn(many, Store().pack)

    assert 9 * BATCH == len(tickets)
    assert Body.most < 9 * BATCH / 2
    assert 0 == Body.alive


async def test_what_is_wrong_with_a_draft_is_raised_when_those_before_it_are_sent() -> None:
    store = Store()

    def spoilt() -> Iterator[Draft]:
        yield from drafts(BATCH + 1)
        raise ValueError("no draft")

    with pytest.raises(ValueError, match="no draft"):
        await send_in_turn(spoilt(), store.pack)

    assert (store.ended, store.under_way) == (1, 0)


async def test_after_a_batch_that_failed_none_is_sent() -> None:
    store = Store(fails_at=2)

    with pytest.raises(ConnectionError):
        await send_in_turn(drafts(4 * BATCH), store.pack)

    assert len(store.batches) == 2


async def test_nothing_is_under_way_when_it_was_cancelled() -> None:
    store = Store()
    sending = asyncio.create_task(send_in_turn(drafts(4 * BATCH), store.pack))
    while not store.under_way:
        await asyncio.sleep(0)

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert store.under_way == 0
    assert len(store.batches) == 1
