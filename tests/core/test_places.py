"""So many at a time: places that are free are had at once, and all others in turn."""

from __future__ import annotations

import asyncio

import pytest

from bee_core.places import Places


def later(seconds: float = 60.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def waiting(places: Places, until: float) -> asyncio.Task[None]:
    task = asyncio.create_task(places.take_turn(until))
    await asyncio.sleep(0)
    return task


async def test_there_are_as_many_places_as_were_asked_for() -> None:
    places = Places(2)

    assert [True, True, False] == [places.take() for _ in range(3)]
    places.leave()
    assert [True, False] == [places.take() for _ in range(2)]


async def test_who_waits_longest_has_the_next_place_and_nobody_comes_in_between() -> None:
    places = Places(1)
    places.take()
    first, second = await waiting(places, later()), await waiting(places, later())

    places.leave()
    assert not places.take()
    await first
    assert not second.done()

    places.leave()
    await second
    places.leave()
    assert places.take()


async def test_who_has_waited_in_vain_takes_no_place() -> None:
    places = Places(1)
    places.take()

    with pytest.raises(TimeoutError):
        await places.take_turn(later(0.01))

    places.leave()
    assert [True, False] == [places.take() for _ in range(2)]


@pytest.mark.parametrize("others", [0, 1])
async def test_a_place_that_comes_as_its_waiter_leaves_is_for_the_next(others: int) -> None:
    places = Places(1)
    places.take()
    leaving = await waiting(places, later())
    staying = [await waiting(places, later()) for _ in range(others)]

    places.leave()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    for task in staying:
        await task
        places.leave()

    assert [True, False] == [places.take() for _ in range(2)]


async def test_who_leaves_the_line_is_passed_by() -> None:
    places = Places(1)
    places.take()
    leaving, staying = await waiting(places, later()), await waiting(places, later())

    leaving.cancel()
    places.leave()
    await staying

    assert leaving.cancelled()
    assert not places.take()
