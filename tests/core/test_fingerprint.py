"""What failed alike has one fingerprint; what did not has another."""

from __future__ import annotations

import pytest

from bee_core.attempt import describe
from bee_core.codec import KIND_HEADER
from bee_core.fingerprint import LONGEST, error_of, fingerprint
from bee_core.message import Counters, Note, Reason
from bee_core.stored import State, Stored


def archived(detail: str, *, reason: Reason = "failed", kind: str = "mail") -> Stored:
    return Stored(
        id="a",
        incarnation=1,
        state=State.ARCHIVED,
        body=b'{"v":1,"job":{"type":"%s"}}' % kind.encode(),
        headers={},
        priority=0,
        counters=Counters(),
        sent_at=0.0,
        due_at=0.0,
        note=Note(reason, detail),
    )


def traceback_of(error: BaseException) -> str:
    try:
        raise error
    except type(error) as raised:
        return describe(raised)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ValueError: row 17", "ValueError: row 4711"),
        ("KeyError: 0x7f3a99", "KeyError: 0x1"),
        ("OSError: 10.0.0.1:80 is away", "OSError: 192.168.17.200:443 is away"),
        ("E: 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d", "E: 019a0000-7a10-7c3e-8a4e-ffffffffffff"),
        ("E: d168928593b341cb", "E: 3ed89f0aaa3b4107"),
        ("E: after 0.25 s", "E: after 12 s"),
    ],
)
def test_numbers_and_ids_do_not_count(one: str, other: str) -> None:
    assert fingerprint(archived(one)) == fingerprint(archived(other))
    assert fingerprint(archived(one)).digest == fingerprint(archived(other)).digest


@pytest.mark.parametrize(
    "other",
    [
        archived("KeyError: 'a'"),
        archived("ValueError: a", kind="pay"),
        archived("ValueError: a", reason="timed_out"),
        archived("ValueError: a face"),
    ],
)
def test_kind_reason_and_error_count(other: Stored) -> None:
    digests = {fingerprint(one).digest for one in (archived("ValueError: a"), other)}

    assert 2 == len(digests)


def test_the_digest_is_the_same_everywhere() -> None:
    found = fingerprint(archived("ValueError: row 17"))

    assert ("mail", "failed", "ValueError: row N") == (found.kind, found.reason, found.error)
    assert "96e78bed" == found.digest


def test_the_error_of_a_traceback_is_behind_the_last_stack() -> None:
    try:
        raise KeyError("cause")
    except KeyError as cause:
        error = ValueError("first line\n  second line\nthird line")
        error.__cause__ = cause
        text = traceback_of(error)

    assert "ValueError: first line" == error_of(Note("failed", text))


@pytest.mark.parametrize(
    ("note", "line"),
    [
        (None, ""),
        (Note("failed"), ""),
        (Note("failed", "ValueError: no stack\nmore"), "ValueError: no stack"),
        (Note("failed", '  File "a.py", line 1\n    cut('), "    cut(".strip()),
        (Note("timed_out", 'stopped after 30 s, at\n  File "a.py"'), "stopped after 30 s"),
        (Note("malformed", "not a job envelope"), "not a job envelope"),
    ],
)
def test_the_error_of_other_notes(note: Note | None, line: str) -> None:
    assert line == error_of(note)


def test_one_without_a_note_was_decided_on_by_its_handler() -> None:
    silent = Stored(
        id="a",
        incarnation=1,
        state=State.ARCHIVED,
        body=b"\xff",
        headers={KIND_HEADER: "failure"},
        priority=0,
        counters=Counters(),
        sent_at=0.0,
        due_at=0.0,
    )

    found = fingerprint(silent)

    assert ("failure", "ruled", "") == (found.kind, found.reason, found.error)


def test_an_error_of_any_length_is_bounded_and_quick() -> None:
    found = fingerprint(archived("a1-" * 1_000_000))

    assert len(found.error) <= LONGEST
