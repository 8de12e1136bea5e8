"""What is done to many jobs is bounded by what was there, and accounted for if it is stopped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import bee_core as bee
from bee_core.broker import Store
from bee_core.cli.common.acting import Deed, Missed, Order, act_on_ids, act_on_matches
from bee_core.errors import BrokerUnavailable
from bee_core.stored import State, Stored
from bee_memory import MemoryBroker

from .support import Jobs, Mail

DEED = Deed("retry", "retried", "archived job")


async def put_away(store: Store, *ids: str) -> None:
    queue = bee.Queue(store, "mail", Jobs)
    await queue.send_many([queue.draft(Mail("ada"), id=id) for id in ids])
    await queue.cancel(*ids)


async def test_what_is_archived_again_meanwhile_is_not_retried_twice() -> None:
    async with MemoryBroker() as store:
        await put_away(store, *(f"job-{number}" for number in range(450)))
        done: list[str] = []

        async def act(found: Sequence[Stored]) -> Missed:
            ids = [one.id for one in found]
            await store.restore("mail", ids)
            await store.cancel("mail", ids, to=bee.Archive())  # they fail again at once
            await put_away(store, f"new-{len(done)}")
            done.extend(ids)
            return []

        states = [State.ARCHIVED]
        code = await act_on_matches(
            DEED, Order(queue="mail", yes=True), store, states, act, last_lives=True
        )

        assert 0 == code
        assert sorted(f"job-{number}" for number in range(450)) == sorted(done)


async def test_what_was_done_is_said_also_if_the_store_goes_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = 0

    async def act(ids: Sequence[str]) -> Missed:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BrokerUnavailable("gone")
        return []

    order = Order(queue="mail", ids=[str(number) for number in range(300)])

    with pytest.raises(BrokerUnavailable):
        await act_on_ids(DEED, order, act)

    assert "retried 200 archived jobs of mail\n" == capsys.readouterr().out


async def test_of_many_that_were_not_done_some_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with MemoryBroker() as store:
        await put_away(store, *(f"job-{number}" for number in range(100)))

        async def act(found: Sequence[Stored]) -> Missed:
            return [(one.id, "no") for one in found]

        code = await act_on_matches(
            DEED, Order(queue="mail", yes=True), store, [State.ARCHIVED], act
        )

    shown = capsys.readouterr()
    assert 1 == code
    assert "retried 0 archived jobs of mail, 100 not\n" == shown.out
    assert 21 == len(shown.err.splitlines())
    assert "and 80 more" == shown.err.splitlines()[-1]
