"""How much is leased ahead of free slots: as much as ends meanwhile."""

from __future__ import annotations

from bee_core.ahead import Pace
from bee_core.batches import BATCH
from bee_core.message import Lease, Receipt


def at_work(*, every: float, took: float, ending: int, size: int = 100) -> tuple[Pace, float, int]:
    """After a while of leases that took so long, and so many jobs ending between two of them."""
    pace, now, ended = Pace(), 1000.0, 0
    for _ in range(50):
        now, ended = now + every, ended + ending
        pace.leased([Lease(Receipt("a", 1), bytes(size))], now - took, now, ended)
    return pace, now, ended


def test_as_many_are_leased_ahead_as_end_during_two_leases() -> None:
    pace, now, ended = at_work(every=0.010, took=0.008, ending=100)  # 10,000 a second

    assert pace.ahead(now, ended) in (159, 160)


def test_where_leases_are_quick_as_many_are_leased_ahead_as_end_in_ten_milliseconds() -> None:
    pace, now, ended = at_work(every=0.010, took=0.0005, ending=100)

    assert pace.ahead(now, ended) in (99, 100)


def test_nothing_is_leased_ahead_before_a_job_has_ended() -> None:
    pace, now, ended = at_work(every=0.010, took=0.002, ending=0)

    assert pace.ahead(now, ended) == 0


def test_nothing_is_leased_ahead_of_long_jobs() -> None:
    pace, now, ended = at_work(every=1.0, took=0.005, ending=90)

    assert pace.ahead(now, ended) == 0


def test_no_more_than_a_batch_is_leased_ahead() -> None:
    pace, now, ended = at_work(every=0.010, took=0.010, ending=1000)

    assert pace.ahead(now, ended) == BATCH


def test_no_more_than_eight_megabytes_are_leased_ahead() -> None:
    pace, now, ended = at_work(every=0.010, took=0.010, ending=1000, size=1024 * 1024)

    assert pace.ahead(now, ended) == 8


def test_of_messages_with_nothing_in_them_a_batch_is_leased_ahead() -> None:
    pace, now, ended = at_work(every=0.010, took=0.010, ending=1000, size=0)

    assert pace.ahead(now, ended) == BATCH


def test_when_jobs_no_longer_end_nothing_is_leased_ahead() -> None:
    pace, now, ended = at_work(every=0.010, took=0.002, ending=100)

    assert pace.ahead(now + 0.05, ended) > 0
    assert pace.ahead(now + 0.5, ended) == 0


def test_what_was_before_a_long_job_is_forgotten_with_the_first_lease_after_it() -> None:
    pace, now, ended = at_work(every=0.010, took=0.002, ending=100)
    pace.leased([Lease(Receipt("a", 1), b"")], now + 1.0, now + 1.002, ended + 1)

    assert pace.ahead(now + 1.01, ended + 1) == 0


def test_one_lease_is_no_more_than_eight_megabytes_and_the_first_no_more_than_250() -> None:
    pace, _, _ = at_work(every=0.010, took=0.002, ending=100, size=100 * 1024)

    assert 81 == pace.bearable
    assert 250 == Pace().bearable


def test_a_clock_that_stands_still_leases_nothing_ahead() -> None:
    pace, now, ended = at_work(every=0.0, took=0.0, ending=100)

    assert pace.ahead(now, ended) == 0
