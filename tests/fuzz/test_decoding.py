"""Whatever the bytes: a job or DecodeError. The long form is `python -m tests.fuzz`."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from tests.fuzz import decoding
from tests.fuzz.bodies import Bodies


def test_twenty_thousand_hostile_bodies_are_jobs_or_decode_errors() -> None:
    outcome = decoding.run(20_000, seed=1)

    assert [] == outcome.faults
    assert all(outcome.answers[answer] > 300 for answer in ("job", "malformed", "unknown"))


def test_the_same_seed_makes_the_same_bodies() -> None:
    assert list(islice(Bodies(7), 500)) == list(islice(Bodies(7), 500))
    assert list(islice(Bodies(7), 500)) != list(islice(Bodies(8), 500))


def test_another_error_and_a_slow_answer_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(body: bytes) -> str:
        if len(body) % 2:
            return "other"
        began = time.thread_time()
        while time.thread_time() - began < decoding.SLOWEST:
            pass
        return "job"

    monkeypatch.setattr(decoding, "decode", decode)
    outcome = decoding.run(20)

    assert 20 == len(outcome.faults)
