"""An alarm: it rings once, at the time that was set last, and never before it."""

from __future__ import annotations

import asyncio

from bee_core.alarm import Alarm


def now() -> float:
    return asyncio.get_running_loop().time()


class Rings(list[float]):
    """When it rang."""

    def __call__(self) -> None:
        self.append(now())


async def test_it_rings_once_at_the_time_that_was_set() -> None:
    rings, began = Rings(), now()
    Alarm(rings).set(began + 0.02)

    await asyncio.sleep(0.08)

    assert 1 == len(rings)
    assert rings[0] >= began + 0.02


async def test_the_last_time_counts_be_it_later_or_sooner() -> None:
    later, sooner, began = Rings(), Rings(), now()
    one, other = Alarm(later), Alarm(sooner)
    one.set(began + 0.02)
    one.set(began + 0.06)
    other.set(began + 60)
    other.set(began + 0.02)

    await asyncio.sleep(0.12)

    assert [True] == [ring >= began + 0.06 for ring in later]
    assert 1 == len(sooner)


async def test_one_that_rests_rings_when_it_is_set_again_and_not_before() -> None:
    rings = Rings()
    alarm = Alarm(rings)
    alarm.set(now() + 0.02)
    alarm.rest()
    await asyncio.sleep(0.06)
    assert [] == rings

    alarm.set(now() + 0.02)
    await asyncio.sleep(0.06)
    assert 1 == len(rings)


async def test_a_time_that_is_over_rings_at_once() -> None:
    rings = Rings()
    Alarm(rings).set(now() - 1)

    await asyncio.sleep(0.02)

    assert 1 == len(rings)


async def test_one_that_is_cancelled_keeps_nothing_in_the_loop_and_can_be_set_again() -> None:
    rings = Rings()
    alarm = Alarm(rings)
    alarm.set(now() + 0.02)
    timer = alarm._timer
    alarm.cancel()
    assert timer is not None
    assert timer.cancelled()

    alarm.set(now() + 0.02)
    await asyncio.sleep(0.06)
    assert 1 == len(rings)


async def test_it_may_be_set_by_what_it_rings() -> None:
    rings = Rings()

    def ring() -> None:
        rings()
        if len(rings) < 3:
            alarm.set(now() + 0.01)

    alarm = Alarm(ring)
    alarm.set(now() + 0.01)
    await asyncio.sleep(0.1)

    assert 3 == len(rings)
