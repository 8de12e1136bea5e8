"""The arithmetic of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.rates import count_at, fitting, joint_rate, percentile


def test_the_rate_of_one_process_leaves_out_its_start_and_what_it_did_before_the_first_report() -> (
    None
):
    assert 100.0 == joint_rate([[(50, 10.0), (100, 10.5), (250, 12.0)]])


def test_the_rate_of_several_is_that_of_the_time_in_which_all_work() -> None:
    early = [(0, 0.0), (100, 1.0), (200, 2.0)]
    late = [(0, 1.0), (300, 2.0), (600, 3.0)]

    assert 400.0 == joint_rate([early, late])


@pytest.mark.parametrize(
    "progress",
    [
        pytest.param([], id="nobody"),
        pytest.param([[(5, 1.0)]], id="one report"),
        pytest.param([[(0, 0.0), (9, 1.0)], [(0, 2.0), (9, 3.0)]], id="never at the same time"),
        pytest.param([[(9, 1.0), (9, 2.0)]], id="nothing done"),
    ],
)
def test_there_is_no_rate_of_what_was_not_seen(progress: list[list[tuple[int, float]]]) -> None:
    assert joint_rate(progress) is None


def test_between_two_reports_the_count_is_a_straight_line() -> None:
    progress = [(10, 1.0), (30, 2.0)]

    assert [10, 15, 30, 30] == [count_at(progress, time) for time in (0.5, 1.25, 2.0, 9.0)]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(100, 0, -1)]

    assert (50.0, 99.0, 100.0) == tuple(percentile(values, part) for part in (0.5, 0.99, 1.0))


@pytest.mark.parametrize(
    ("rate", "expected"), [(1.0, 40), (1_234.0, 2_400), (33_333.0, 66_000), (1e9, 100_000)]
)
def test_the_number_of_jobs_fits_the_time_within_bounds(rate: float, expected: int) -> None:
    assert expected == fitting(rate, 2.0, 40, 100_000)
