"""A good history has no faults; each kind of fault, planted in one, is found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bee_core.testing.history import Item, Kind, Record, Verb, check, read
from bee_core.testing.recording import Recorder

LEASE = 10.0


class Story:
    """A history that is told call by call. Each takes a tenth of a second, but for pauses."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._now = 0.0
        self._calls = count(1)

    def pause(self, seconds: float) -> None:
        self._now += seconds

    def call(
        self,
        verb: Verb,
        asked: Sequence[Item] = (),
        answer: Sequence[Item] | None = (),
        duration: float = 0.0,
    ) -> None:
        """One call; without an answer the process was killed."""
        number = next(self._calls)
        self.records.append(Record("w", number, self._now, "asked", verb, asked, duration))
        self._now += 0.1
        if answer is not None:
            self.records.append(Record("w", number, self._now, "answered", verb, answer))
        self._now += 0.01

    def send(self, id: str = "a", known: bool = True) -> None:
        self.call("send", [Item(id)], [Item(id)] if known else None)

    def lease(self, token: int, deliveries: int = 1, id: str = "a", **told: Any) -> None:
        item = Item(id, token, deliveries=deliveries, **told)
        self.call("lease", answer=[item], duration=LEASE)

    def lease_unanswered(self) -> None:
        self.call("lease", answer=None, duration=LEASE)

    def extend(self, token: int, applied: bool = True, duration: float = LEASE) -> None:
        item = Item("a", token)
        self.call("extend", [item], [item] if applied else [], duration)

    def settle(self, token: int, way: Any = "delete", applied: Any = True, errors: int = 0) -> None:
        item = Item("a", token, way, errors=errors)
        self.call("settle", [item], None if applied is None else [item] if applied else [])


def kinds(story: Story, left: dict[str, list[str]] | None = None, **how: Any) -> set[Kind]:
    return {fault.kind for fault in check(story.records, left or {}, **how)}


@pytest.fixture
def story() -> Story:
    """A message that was sent."""
    story = Story()
    story.send()
    return story


def test_a_message_that_was_repeated_and_taken_over_and_then_done_has_no_fault(
    story: Story,
) -> None:
    story.lease(1)
    story.extend(1)
    story.settle(1, "repeat", errors=1)
    story.lease(2, 2, errors=1)
    story.pause(LEASE)  # its process was killed
    story.lease(3, 3, errors=1, stalls=1)
    story.settle(2, applied=False)
    story.settle(3)
    story.settle(3, applied=False)

    assert [] == check(story.records, {})


def test_a_message_that_is_archived_or_waits_has_no_fault(story: Story) -> None:
    story.send("b")
    story.lease(1)
    story.settle(1, "archive")

    assert [] == check(story.records, {"a": ["archived"], "b": ["ready"]})


def test_what_was_never_answered_may_have_happened_or_not(story: Story) -> None:
    story.send("b", known=False)
    story.lease_unanswered()
    story.pause(LEASE)
    story.lease(2, 2, stalls=1)
    story.settle(2, "repeat", applied=None, errors=1)
    story.lease(3, 3, stalls=1, errors=1)
    story.settle(3, applied=None)

    assert [] == check(story.records, {})
    assert [] == check(story.records, {"b": ["ready"], "a": ["leased"]})


def test_settling_late_is_no_fault_while_nobody_took_over(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE + 0.5)
    story.settle(1)

    assert [] == check(story.records, {})


def test_an_accepted_message_that_is_nowhere_is_lost(story: Story) -> None:
    assert {"lost"} == kinds(story)


def test_an_archived_message_that_is_nowhere_is_lost(story: Story) -> None:
    story.lease(1)
    story.settle(1, "archive")

    assert {"lost"} == kinds(story)


def test_a_message_that_is_in_two_places_is_found(story: Story) -> None:
    assert {"in two places"} == kinds(story, {"a": ["ready", "leased"]})


@pytest.mark.parametrize(("way", "place"), [("delete", "ready"), ("archive", "leased")])
def test_a_message_that_has_ended_and_is_there_is_found(story: Story, way: str, place: str) -> None:
    story.lease(1)
    story.settle(1, way)

    assert {"in two places"} == kinds(story, {"a": [place]})


def test_a_message_that_nobody_has_archived_is_found(story: Story) -> None:
    assert {"in two places"} == kinds(story, {"a": ["archived"]})


def test_a_message_that_nobody_has_sent_is_found(story: Story) -> None:
    assert {"never sent"} == kinds(story, {"a": ["ready"], "b": ["ready"]})


def test_a_message_that_is_leased_and_nobody_has_sent_is_found() -> None:
    story = Story()
    story.lease(1)
    story.settle(1)

    assert {"never sent"} == kinds(story)


def test_a_message_that_is_settled_twice_is_found(story: Story) -> None:
    story.lease(1)
    story.settle(1)
    story.settle(1)

    assert {"settled twice"} == kinds(story)


def test_a_message_that_ends_twice_is_found(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE)
    story.lease(2, 2, stalls=1)
    story.settle(2)
    story.settle(1)

    assert "settled twice" in kinds(story)


def test_a_message_that_is_leased_after_its_end_is_found(story: Story) -> None:
    story.lease(1)
    story.settle(1)
    story.lease(2, 2, stalls=1)

    assert "leased after its end" in kinds(story)


@pytest.mark.parametrize("verb", ["extend", "settle"])
def test_a_holder_that_was_replaced_and_still_does_something_is_found(
    story: Story, verb: str
) -> None:
    story.lease(1)
    story.pause(LEASE)
    story.lease(2, 2, stalls=1)
    getattr(story, verb)(1)

    assert "two holders" in kinds(story, {"a": ["ready"]})


def test_a_lease_that_is_taken_over_too_early_is_found(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE / 2)
    story.lease(2, 2, stalls=1)

    assert {"two holders"} == kinds(story, {"a": ["leased"]})


def test_a_lease_that_is_taken_over_though_it_was_extended_is_found(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE / 2)
    story.extend(1)
    story.pause(LEASE / 2)
    story.lease(2, 2, stalls=1)

    assert {"two holders"} == kinds(story, {"a": ["leased"]})


def test_a_token_that_does_not_grow_is_found(story: Story) -> None:
    story.lease(2)
    story.pause(LEASE)
    story.lease(1, 2, stalls=1)

    assert "token" in kinds(story, {"a": ["leased"]})


def test_a_token_that_two_messages_have_had_is_found(story: Story) -> None:
    story.send("b")
    story.lease(1)
    story.lease(1, id="b")

    assert {"token"} == kinds(story, {"a": ["leased"], "b": ["leased"]})


def test_a_message_that_is_redelivered_late_is_found(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE + 2)
    story.lease(2, 2, stalls=1)
    story.settle(2)

    assert {"redelivered late"} == kinds(story)
    assert set() == kinds(story, within=5)
    assert set() == kinds(story, within=None)


def test_a_message_that_is_never_redelivered_is_found(story: Story) -> None:
    story.lease(1)
    story.pause(LEASE + 2)
    story.send("b")

    assert {"redelivered late"} == kinds(story, {"a": ["ready"], "b": ["ready"]})


@pytest.mark.parametrize(
    "told",
    [
        {"deliveries": 3, "stalls": 1, "errors": 1},
        {"deliveries": 2, "stalls": 1, "errors": 1},
        {"deliveries": 2, "stalls": 0, "errors": 0},
        {"deliveries": 2, "stalls": 0, "errors": 2},
    ],
)
def test_a_counter_that_is_wrong_is_found(story: Story, told: dict[str, Any]) -> None:
    story.lease(1)
    story.settle(1, "repeat", errors=1)
    story.lease(2, **told)
    story.settle(2)

    assert {"counters"} == kinds(story)


def test_a_history_is_read_from_the_files_of_all_processes_but_for_a_line_cut_off(
    tmp_path: Path,
) -> None:
    one, other = Recorder(tmp_path, "one"), Recorder(tmp_path, "other")
    call = one.ask("send", [Item("a")])
    other.ask("lease", duration=LEASE)
    one.answer(call, "send", [Item("a")])
    one.close()
    other.close()
    with open(tmp_path / "other.history", "ab") as file:
        file.write(b'{"who":"other","cal')

    records = read(tmp_path)

    assert [("one", "asked"), ("other", "asked"), ("one", "answered")] == [
        (record.who, record.event) for record in records
    ]
    assert [] == check(records, {"a": ["ready"]})
