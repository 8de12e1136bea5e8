"""How many messages to ask for, after some that did not come."""

from __future__ import annotations

from bee_core.batches import BATCH
from bee_core.portion import LEAST, Portion


def test_as_many_as_fit_in_a_batch_are_asked_for() -> None:
    assert BATCH == Portion().most


def test_what_did_not_come_is_asked_for_in_smaller_portions() -> None:
    portion = Portion()
    asked = []
    for _ in range(7):
        asked.append(portion.most)
        portion.failed(portion.most, 100.0)

    assert [1000, 500, 250, 125, 62, 50, 50] == asked
    assert LEAST == portion.most


def test_few_were_not_too_many() -> None:
    portion = Portion()
    portion.failed(LEAST, 100.0)

    assert BATCH == portion.most


def test_after_an_outage_portions_grow_at_once_to_half_of_what_failed_first() -> None:
    portion = Portion()
    for second in range(30):
        portion.failed(portion.most, float(second))
    grown = []
    for _ in range(6):
        portion.worked(31.0)
        grown.append(portion.most)

    assert [100, 200, 400, 500, 500, 500] == grown


def test_what_was_too_much_is_tried_again_after_a_minute() -> None:
    portion = Portion()
    portion.failed(1000, 0.0)
    portion.worked(59.0)
    before = portion.most
    portion.worked(60.0)

    assert (500, 1000) == (before, portion.most)


def test_what_is_too_much_is_learned_by_halves_and_then_avoided() -> None:
    portion = Portion()
    failed = 0
    for second in range(60):  # an answer with more than 300 never comes
        if portion.most > 300:
            failed += 1
            portion.failed(portion.most, second / 2)
        else:
            portion.worked(second / 2)

    assert 3 == failed
    assert 250 == portion.most
