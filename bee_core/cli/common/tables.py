"""Tables of text: columns that stand below each other, whatever the letters are.

In a pipe nothing is ever cut. On a terminal the last column gives way, never an id.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO
from unicodedata import category, east_asian_width

_GAP = "  "
_LEAST = 10
"""The last column is not cut to less than this."""


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if category(letter) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(letter) in "WF")
        for letter in text
    )


def cut(text: str, width: int) -> str:
    """The text in so many columns; what is left out shows as an ellipsis."""
    if width_of(text) <= width:
        return text
    taken, kept = 0, ""
    for letter in text:
        taken += width_of(letter)
        if taken > width - 1:
            break
        kept += letter
    return f"{kept}…" if width > 0 else ""


class Table:
    """A table that may be printed in pieces. The first one decides how wide the columns are.

    A title that begins with `>` is that of a column of numbers. `width` is that of the terminal;
    None is a pipe.
    """

    def __init__(self, titles: Sequence[str], *, width: int | None = None) -> None:
        self._titles = [title.removeprefix(">") for title in titles]
        self._right = [title.startswith(">") for title in titles]
        self._width = width
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """The next rows; below the titles, if they are the first."""
        if not self._widths:
            columns = zip(self._titles, *rows, strict=True)
            self._widths = [max(map(width_of, column)) for column in columns]
            yield self._line(self._titles)
        for row in rows:
            yield self._line(row)

    def _line(self, row: Sequence[str]) -> str:
        cells = [
            _padded(cell, size, right)
            for cell, size, right in zip(row, self._widths, self._right, strict=True)
        ]
        if self._width is not None and not self._right[-1]:
            before = sum(self._widths[:-1]) + len(_GAP) * (len(self._widths) - 1)
            cells[-1] = cut(row[-1], max(_LEAST, self._width - before))
        return _GAP.join(cells).rstrip()


def table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None
) -> Iterator[str]:
    """The lines of a whole table."""
    return Table(titles, width=width).lines(rows)


def terminal_width() -> int | None:
    """Of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sits there. A stream may be closed from the beginning."""
    return stream is not None and stream.isatty()


def _padded(cell: str, width: int, on_the_right: bool) -> str:
    space = " " * (width - width_of(cell))
    return space + cell if on_the_right else cell + space
