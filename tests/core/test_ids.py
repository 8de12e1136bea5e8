"""new_id: a UUIDv7 that sorts by the time it was made."""

from __future__ import annotations

import time
import uuid

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


def test_ids_sort_by_the_millisecond_in_which_they_were_made() -> None:
    ids = [new_id() for _ in range(20_000)]

    stamps = [id[:13] for id in ids]

    assert sorted(stamps) == stamps
    assert len(set(stamps)) > 1


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
