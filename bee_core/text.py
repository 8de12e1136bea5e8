"""Text from anywhere, made fit: to be stored, to stand on one line, to be shown."""

from __future__ import annotations

DETAIL = 8 * 1024
"""As many characters are kept of what went wrong."""


def storable(text: str) -> str:
    """Text that every store can hold: bounded (its end matters most), no NUL, no surrogates."""
    if len(text) > DETAIL:
        text = "..." + text[-DETAIL:]
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def readable(packed: bytes) -> str:
    """Text that a store holds as bytes. Bee writes UTF-8 there; what others wrote is marked."""
    return packed.decode("utf-8", "replace")


def on_one_line(text: str, longest: int) -> str:
    """As much of it as is allowed, with a blank for whatever is not printable."""
    line = text[:longest]
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else " " for letter in line)


def escaped(text: str) -> str:
    """All of it on one line: what is not printable is shown as Python would write it."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
