"""Settling many at once: how many calls it takes, and what one locked row costs the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bee_core.disposition import Delete
from bee_core.message import Draft, Lease, Settlement
from bee_pg import PgBroker

from .support import QUEUE, lease, send


@pytest.fixture
async def held(broker: PgBroker) -> Sequence[Lease]:
    """Three hundred messages, leased."""
    await send(broker, *(f"{number:03}" for number in range(300)))
    return await lease(broker, limit=300)


@pytest.fixture
def calls(broker: PgBroker, held: Sequence[Lease], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are called from now on."""
    run, called = broker._run, list[str]()

    async def counted(verb: str, *arguments: object) -> object:
        called.append(verb)
        return await run(verb, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "_run", counted)
    return called


def ended(one: Lease, then: str) -> Settlement:
    return Settlement(one.receipt, Delete(), then=[Draft(then, b"again")])


async def test_jobs_that_follow_themselves_are_settled_in_one_call(
    broker: PgBroker, held: Sequence[Lease], calls: list[str]
) -> None:
    assert set() == await broker.settle(QUEUE, [ended(one, one.receipt.id) for one in held])

    assert ["settle"] == calls
    assert 300 == (await broker.stats(QUEUE)).ready


async def test_only_what_meets_another_one_is_settled_after_it(
    broker: PgBroker, held: Sequence[Lease], calls: list[str]
) -> None:
    meeting = {100: held[5].receipt.id, 200: held[250].receipt.id}
    settlements = [ended(one, meeting.get(n, f"new {n}")) for n, one in enumerate(held)]

    assert set() == await broker.settle(QUEUE, settlements)

    assert ["settle"] * 3 == calls
    # the fifth was settled before, and is there anew; the 250th was still there when it was met
    assert 299 == (await broker.stats(QUEUE)).ready
