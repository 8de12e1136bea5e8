"""Durations and sizes as people type them."""

from __future__ import annotations

import click
import pytest

from bee_core.cli.common.units import as_bytes, as_seconds

OPTION = click.Option(["--x"])
CONTEXT = click.Context(click.Command("x"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("25", 25.0),
        ("25s", 25.0),
        ("1.5 s", 1.5),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("500ms", 0.5),
        ("0", 0.0),
    ],
)
def test_a_duration_is_a_number_and_maybe_a_unit(text: str, expected: float) -> None:
    assert expected == as_seconds(CONTEXT, OPTION, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000", 1000),
        ("512M", 512 << 20),
        ("512MB", 512 << 20),
        ("512MiB", 512 << 20),
        ("1.5g", 3 << 29),
        ("4 k", 4096),
    ],
)
def test_a_size_is_a_number_and_maybe_a_unit(text: str, expected: int) -> None:
    assert expected == as_bytes(CONTEXT, OPTION, text)


@pytest.mark.parametrize("text", ["", "s", "5 weeks", "-1", "1e3", "inf", "5M", "99999999d", "٣"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        as_seconds(CONTEXT, OPTION, text)


@pytest.mark.parametrize("text", ["", "M", "5 bytes", "-1", "0", "0.1", "5T", "5s"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        as_bytes(CONTEXT, OPTION, text)


def test_nothing_stays_nothing() -> None:
    assert as_seconds(CONTEXT, OPTION, None) is None
    assert as_bytes(CONTEXT, OPTION, None) is None
