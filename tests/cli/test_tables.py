"""Tables, spans of time, and texts that cannot do harm."""

from __future__ import annotations

import pytest

import bee_core as bee
from bee_core.cli.common.policies import policy_words
from bee_core.cli.common.tables import Table, cut, table, width_of
from bee_core.cli.common.words import many_lines, one_line, span


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("", 0), ("é", 1), ("e\u0301", 1), ("日本", 4), ("a\u200bb", 2)]
)
def test_a_text_is_as_wide_as_a_terminal_shows_it(text: str, width: int) -> None:
    assert width == width_of(text)


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 4, "日…"), ("abc", 1, "…"), ("abc", 0, "")],
)
def test_a_text_is_cut_to_a_width(text: str, width: int, shown: str) -> None:
    assert shown == cut(text, width)


def test_columns_stand_below_each_other() -> None:
    lines = list(table(("name", ">number", "text"), [("日", "7", "x"), ("ab", "12345678", "")]))

    assert ["name    number  text", "日           7  x", "ab    12345678"] == lines


def test_a_pipe_gets_everything() -> None:
    (_, line) = table(("id", "error"), [("a" * 200, "b" * 500)])

    assert f"{'a' * 200}  {'b' * 500}" == line


def test_on_a_terminal_the_last_column_is_cut_and_never_an_id() -> None:
    (_, line, wide) = table(("id", "error"), [("a" * 30, "b" * 500), ("c", "short")], width=50)

    assert f"{'a' * 30}  {'b' * 17}…" == line
    assert 50 == len(line)
    assert f"c{' ' * 29}  short" == wide


def test_a_table_can_be_printed_in_pieces() -> None:
    pieces = Table(("id", "x"))

    assert ["id  x", "a   1"] == list(pieces.lines([("a", "1")]))
    assert ["longer  2"] == list(pieces.lines([("longer", "2")]))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.25, "0.2s"),
        (3, "3s"),
        (59.9, "59s"),
        (60, "1m"),
        (192, "3m12s"),
        (3600, "1h"),
        (7500, "2h05m"),
        (86_400 * 3 + 3600 * 4, "3d04h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert text == span(seconds)


def test_text_from_a_store_moves_no_cursor() -> None:
    assert "a\\nb\\x1b[31m\\u202ec" == one_line("a\nb\x1b[31m\u202ec")
    assert "a\nb\\x9b" == many_lines("a\r\nb\x9b")
    assert 200 == len(one_line("a" * 1000))


def test_a_policy_in_words() -> None:
    policy = bee.Policy(
        timeout=None,
        on_success=bee.Archive(),
        on_error=bee.Repeat(1, bee.Delete(), bee.Backoff(min=1, max=60)),
        on_stall=bee.Repeat(None),
        on_interrupt=bee.Reschedule(front=True),
        keep_result=3600,
    )

    assert {
        "timeout": "none",
        "on_success": "archive",
        "on_error": "repeat 1 time, then delete (backoff 1s, times 2 each, at most 1m, jitter 0.1)",
        "on_stall": "repeat for ever",
        "on_interrupt": "again at the front",
        "keep_result": "1h",
    } == dict(policy_words(policy))
