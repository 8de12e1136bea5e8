"""How many at once: it rises while it may, holds, falls, and stays between its bounds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bee_core as bee
from bee_core.auto import FAR, PATIENCE, Course
from bee_core.meter import Load, Reading

CALM = Reading(cpu=0.1, lag=0.001)
AUTO = bee.Auto(min=1, max=1000)


def follow(
    auto: bee.Auto, size: int, decisions: int, world: Callable[[int], tuple[Load, Reading]]
) -> list[int]:
    """The sizes it takes in a world that answers to its size."""
    course, sizes = Course(auto), [size]
    for _ in range(decisions):
        sizes.append(course.next(sizes[-1], *world(sizes[-1])))
    return sizes


def busy(size: int) -> Load:
    return Load(size, hungry=True)


def test_it_rises_from_one_to_a_thousand_in_well_under_a_minute() -> None:
    sizes = follow(AUTO, 1, 20, lambda size: (busy(size), CALM))

    assert 1000 == sizes[-1]
    assert sizes.index(1000) * AUTO.every <= 10


def test_it_does_not_rise_when_nothing_waits() -> None:
    assert [10, 10, 10] == follow(AUTO, 10, 2, lambda size: (Load(size, hungry=False), CALM))


def test_it_does_not_rise_when_the_processor_is_in_use() -> None:
    assert [10] * 6 == follow(AUTO, 10, 5, lambda size: (busy(size), Reading(0.95, 0.001)))


def test_it_does_not_rise_when_the_loop_begins_to_be_late() -> None:
    assert [10] * 6 == follow(AUTO, 10, 5, lambda size: (busy(size), Reading(0.1, 0.15)))


def test_it_rises_by_what_the_processor_allows_and_stays_there() -> None:
    """Each job needs a 300th of the processor."""
    sizes = follow(AUTO, 1, 100, lambda size: (busy(size), Reading(min(1.0, size / 300), 0.01)))

    assert 270 <= sizes[-1] <= 300
    assert 1 == len(set(sizes[20:]))


def test_one_low_reading_between_high_ones_is_no_reason_to_rise() -> None:
    readings = iter([Reading(0.95, 0.0), Reading(0.2, 0.0)] * 10)

    assert {10} == set(follow(AUTO, 10, 20, lambda size: (busy(size), next(readings))))


@pytest.mark.parametrize("reading", [Reading(0.1, 0.3), Reading(FAR + 0.1, 0.001)])
def test_it_falls_when_there_is_far_too_much_to_do(reading: Reading) -> None:
    sizes = follow(AUTO, 100, 5, lambda size: (busy(size), reading))

    assert [100, 100, 75, 75, 56, 56] == sizes


def test_one_bad_reading_between_good_ones_is_no_reason_to_fall() -> None:
    readings = iter([Reading(3.0, 0.5), Reading(0.95, 0.0)] * 10)

    assert {10} == set(follow(AUTO, 10, 20, lambda size: (busy(size), next(readings))))


def test_it_holds_when_there_is_a_little_too_much_to_do() -> None:
    assert [8] * 21 == follow(AUTO, 8, 20, lambda size: (busy(size), Reading(1.5, 0.19)))


def test_it_falls_slowly_when_slots_are_not_used() -> None:
    sizes = follow(AUTO, 100, 200, lambda size: (Load(min(3, size), hungry=False), CALM))

    assert [100, 90, 81, 73] == sizes[:4]
    assert sizes[-1] in range(3, 8)
    assert sizes[-1] == sizes[-2]


def test_it_falls_to_its_least_when_there_is_nothing_to_do() -> None:
    auto = bee.Auto(min=5, max=100)

    assert 5 == follow(auto, 100, 200, lambda size: (Load(0, hungry=False), CALM))[-1]


def test_a_load_that_is_not_its_own_does_not_make_it_fall() -> None:
    assert [10, 9] == follow(AUTO, 10, 1, lambda size: (Load(0, hungry=False), CALM))
    assert [10, 10] == follow(AUTO, 10, 1, lambda size: (Load(0, False), Reading(5.0, 0.0)))


def test_where_more_is_too_much_it_does_not_swing() -> None:
    """The loop gets late at 200 jobs, abruptly, and the processor shows nothing of it."""

    def world(size: int) -> tuple[Load, Reading]:
        return busy(size), Reading(0.3, 0.25 if size > 200 else 0.01)

    sizes = follow(AUTO, 1, 600, world)
    steady = sizes[100:]

    assert max(steady) <= 221
    assert min(steady) >= 150
    falls = sum(after < before for before, after in pairwise(steady))
    assert falls <= len(steady) / PATIENCE


def test_after_a_fall_it_rises_again_when_the_load_has_changed() -> None:
    course = Course(AUTO)
    for _ in range(2):
        size = course.next(100, busy(100), Reading(0.1, 0.5))
    for _ in range(5):
        size = course.next(size, Load(0, hungry=False), CALM)
    grown = course.next(size, busy(size), CALM)

    assert 2 * size == grown


@given(
    bounds=st.tuples(st.integers(1, 50), st.integers(0, 50)),
    looks=st.lists(
        st.tuples(st.integers(0, 100), st.booleans(), st.floats(0, 5), st.floats(0, 1)), max_size=50
    ),
)
def test_it_stays_between_its_bounds_whatever_it_reads(
    bounds: tuple[int, int], looks: list[tuple[int, bool, float, float]]
) -> None:
    least, more = bounds
    auto = bee.Auto(min=least, max=least + more)
    course, size = Course(auto), auto.first
    for used, hungry, cpu, lag in looks:
        before, size = size, course.next(size, Load(used, hungry), Reading(cpu, lag))
        assert least <= size <= least + more
        assert size <= max(2 * before, before + 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"min": 0}, "min of Auto must be a whole number from 1"),
        ({"max": 1.5}, "max of Auto must be a whole number from 1"),
        ({"min": 5, "max": 4}, "min <= max, not 5 and 4"),
        ({"start": 200}, "between min and max, not at 200"),
        ({"start": 1, "min": 2}, "between min and max, not at 1"),
        ({"cpu": 0}, "cpu of Auto"),
        ({"cpu": 90}, "cpu of Auto"),
        ({"lag": 0}, "lag of Auto"),
        ({"every": 0}, "every of Auto"),
        ({"meter": 7}, "a meter has a method `read`"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(bee.InvalidOption, match=problem):
        bee.Auto(**options)  # type: ignore[arg-type]
