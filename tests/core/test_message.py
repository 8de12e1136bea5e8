"""The data between a broker and everything above it: names, ids, drafts, counters."""

from __future__ import annotations

import unicodedata
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bee_core as bee
from bee_core.checks import check_draft, check_id, check_queue
from bee_core.message import NO_HEADERS, PRIORITIES, ZERO, Counters, Draft, IfTaken

counts = st.integers(0, 10**9)
counters = st.builds(Counters, **dict.fromkeys(Counters.__struct_fields__, counts))


# Names.


@pytest.mark.parametrize("name", ["a", "_", "mail", "mail-2", "a_b-c", "_1", "x" * 47])
def test_a_legal_queue_name_is_returned(name: str) -> None:
    assert name == check_queue(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 48,
        "1a",
        "-a",
        "Mail",
        "a b",
        "a.b",
        "a:b",
        "a/b",
        "a*",
        "{a}",
        "a'b",
        'a"b',
        "a;drop table",
        "a\n",
        "\na",
        "a\0",
        "\u00e9",
        "\u0661",
        "\u212a",
        "\u200fa",
        "\U0001f41d",
        None,
        7,
        b"a",
        ["a"],
    ],
    ids=ascii,
)
def test_an_illegal_queue_name_is_refused_with_the_rule(name: Any) -> None:
    with pytest.raises(bee.InvalidName) as caught:
        check_queue(name)

    assert f"{name!r} is not a queue name: 1 to 47 of a-z 0-9 _ -" in str(caught.value)


@given(st.text())
def test_a_queue_name_is_made_of_47_plain_characters_at_most(name: str) -> None:
    first = set("abcdefghijklmnopqrstuvwxyz_")
    rest = first | set("0123456789-")
    legal = 0 < len(name) <= 47 and name[0] in first and set(name[1:]) <= rest

    try:
        check_queue(name)
    except bee.InvalidName:
        assert not legal
    else:
        assert legal


@pytest.mark.parametrize(
    "id", ["a", "A b", "x" * 200, "order:1/2?", "\u00e9", "\U0001f41d", "'; --", "{a}", " "]
)
def test_any_text_is_a_job_id(id: str) -> None:
    assert id == check_id(id)


@pytest.mark.parametrize(
    "id",
    ["", "x" * 201, "a\0", "a\nb", "\t", "\x1f", "\ud800", "a\udfff", None, 7, b"a"],
    ids=ascii,
)
def test_an_illegal_job_id_is_refused(id: Any) -> None:
    with pytest.raises(bee.InvalidName, match="is not a job id"):
        check_id(id)


@pytest.mark.parametrize("id", ["a\x7f", "\x80", "a\x9f"], ids=ascii)
def test_no_control_character_is_allowed_in_a_job_id(id: str) -> None:
    assert "Cc" in {unicodedata.category(c) for c in id}

    with pytest.raises(bee.InvalidName, match="no control characters"):
        check_id(id)


def test_a_long_id_is_not_repeated_in_full_in_the_error() -> None:
    with pytest.raises(bee.InvalidName) as caught:
        check_id("x" * 10_000_000)

    assert len(str(caught.value)) < 300


# Drafts.


def test_a_draft_needs_an_id_and_a_body_only() -> None:
    draft = check_draft(Draft("a", b""))

    assert (0.0, 0, {}, bee.Keep()) == (
        draft.delay,
        draft.priority,
        dict(draft.headers),
        draft.if_taken,
    )


@pytest.mark.parametrize(
    ("draft", "error", "words"),
    [
        (Draft("", b""), bee.InvalidName, "is not a job id"),
        (Draft("a", b"", -1.0), bee.InvalidOption, "delay must be between"),
        (Draft("a", b"", priority=10), bee.InvalidOption, "priority must be"),
        (Draft("a", "text"), bee.InvalidOption, "a body is bytes, not str"),  # type: ignore[arg-type]
        (Draft("a", None), bee.InvalidOption, "a body is bytes, not NoneType"),  # type: ignore[arg-type]
        (Draft("a", bytearray(b"")), bee.InvalidOption, "a body is bytes, not bytearray"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_draft_is_refused(draft: Draft, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        check_draft(draft)


def test_there_are_nineteen_priorities() -> None:
    assert list(range(-9, 10)) == list(PRIORITIES)


def test_the_empty_headers_cannot_be_filled_by_accident() -> None:
    with pytest.raises(TypeError):
        NO_HEADERS["a"] = "b"  # type: ignore[index]


@pytest.mark.parametrize("value", get_args(IfTaken))
def test_what_to_do_with_a_taken_id_is_written_and_read_back(value: Any) -> None:
    written = msgspec.json.encode(value())

    assert value() == msgspec.json.decode(written, type=IfTaken)


@pytest.mark.parametrize("run_at", ["later", "", None, 5])
def test_update_knows_four_ways_to_move_a_message(run_at: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="always, never, if_later, if_earlier"):
        bee.Update(run_at=run_at)


@pytest.mark.parametrize(
    ("update", "resets"),
    [
        (bee.Update(), True),
        (bee.Update(payload=True), True),
        (bee.Update(payload=False), False),
        (bee.Update(payload=False, reset_counts=True), True),
        (bee.Update(payload=True, reset_counts=False), False),
    ],
)
def test_an_update_resets_the_counters_with_the_payload_unless_told_otherwise(
    update: bee.Update, resets: bool
) -> None:
    assert resets == update.resets


# Counters and the rest.


@given(counters, counters)
def test_counters_add_up_each_kind_by_itself(one: Counters, two: Counters) -> None:
    total = one + two

    for name in Counters.__struct_fields__:
        assert getattr(one, name) + getattr(two, name) == getattr(total, name)


@given(counters)
def test_zero_changes_no_counters(some: Counters) -> None:
    assert some == some + ZERO == ZERO + some


def test_live_messages_are_all_but_the_archived_ones() -> None:
    stats = bee.QueueStats(ready=1, delayed=2, leased=4, blocked=8, archived={"failed": 16})

    assert 15 == stats.live


def test_a_receipt_is_a_value_and_can_be_kept_in_a_set() -> None:
    assert {bee.Receipt("a", 1)} == {bee.Receipt("a", 1), bee.Receipt("a", 1)}
    assert bee.Receipt("a", 1) != bee.Receipt("a", 2)


@pytest.mark.parametrize(
    "value",
    [
        bee.Receipt("a", 1),
        bee.Counters(),
        Draft("a", b""),
        bee.Lease(bee.Receipt("a", 1), b""),
        bee.Note("failed"),
        bee.Settlement(bee.Receipt("a", 1), bee.Delete()),
        bee.QueueStats(),
        bee.Update(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_are_frozen(value: Any) -> None:
    name = value.__struct_fields__[0]

    with pytest.raises(AttributeError):
        setattr(value, name, getattr(value, name))
