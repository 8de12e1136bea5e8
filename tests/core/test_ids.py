"""new_id: a UUIDv7 that sorts by the time it was made."""

from __future__ import annotations

import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from bee_core.checks import check_id
from bee_core.ids import new_id


def test_a_new_id_is_a_uuid_of_version_7_as_rfc_9562_writes_it() -> None:
    text = new_id()

    parsed = uuid.UUID(text)

    assert str(parsed) == text
    assert 7 == parsed.version
    assert uuid.RFC_4122 == parsed.variant


def test_a_new_id_begins_with_the_time_in_milliseconds() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id()).int >> 80
    after = time.time_ns() // 1_000_000

    assert before <= made <= after


def test_a_hundred_thousand_ids_are_all_different() -> None:
    assert 100_000 == len({new_id() for _ in range(100_000)})


def test_each_id_sorts_behind_the_one_made_before_it() -> None:
    ids = [new_id() for _ in range(20_000)]

    assert sorted(ids) == ids
    assert len({id[:13] for id in ids}) > 1


def test_ids_sort_even_if_the_clock_stands_still_or_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time_ns()
    clock = itertools.chain([now] * 5000, itertools.repeat(now - 10_000_000))
    monkeypatch.setattr(time, "time_ns", clock.__next__)

    ids = [new_id() for _ in range(10_000)]

    assert sorted(ids) == ids
    assert 10_000 == len(set(ids))


def test_ids_made_in_two_threads_at_once_are_all_different() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = pool.map(lambda _: [new_id() for _ in range(10_000)], range(4))
        ids = list(itertools.chain.from_iterable(made))

    assert 40_000 == len(set(ids))


def test_ids_of_later_milliseconds_sort_after_all_of_the_earlier_ones() -> None:
    ids = []
    for _ in range(5):
        ids.append(new_id())
        end = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == end:
            pass

    assert sorted(ids) == ids


def test_a_new_id_is_a_legal_job_id() -> None:
    id = new_id()

    assert id == check_id(id)
