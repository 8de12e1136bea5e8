"""The short form of the soak, and that it would notice a worker that grows."""

from __future__ import annotations

import pytest

from tests.soak.soak import NAMES, Report, Sample, run, slope


def report(samples: list[Sample]) -> Report:
    return Report("memory", 1, 3600, samples, 60, 0.1, None)


@pytest.mark.parametrize("store", NAMES)
def test_a_worker_under_load_does_not_grow_and_an_idle_one_rests(store: str) -> None:
    found = run(store, seconds=8, idle=2, lease=2)

    assert [] == found.faults, found.lines()
    assert found.jobs > 100
    assert found.idle_cpu < 0.25 * found.idle_seconds


def test_memory_that_grows_is_noticed() -> None:
    flat = report([Sample(n, 50 + n % 2, 10, 3) for n in range(3600)])
    growing = report([Sample(n, 50 + n * 4 / 3600, 10, 3) for n in range(3600)])

    assert [] == flat.faults
    assert ["the worker grows by 4.0 MB an hour"] == growing.faults


def test_files_and_threads_that_become_more_are_noticed() -> None:
    samples = [Sample(n, 50, 10 + n // 1000, 3 + n // 3000) for n in range(3600)]

    assert [
        "the worker has 1 more files open at the end",
        "the worker has more threads than in the beginning",
    ] == report(samples).faults


def test_memory_that_grew_at_first_only_is_no_fault() -> None:
    samples = [Sample(n, 50 + min(n, 600) / 10, 10, 3) for n in range(3600)]

    assert [] == report(samples).faults


def test_the_slope_is_that_of_the_nearest_line() -> None:
    assert 2.0 == slope([(0, 1), (1, 3), (2, 5)])
    assert 0.0 == slope([(1, 1), (1, 3)])
