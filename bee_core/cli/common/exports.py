"""Files that `bee archive export` wrote, read back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bee_core.cli.common.errors import WrongUse
from bee_core.errors import InvalidInput
from bee_core.export import Exported, import_line


def read_export(file: Path) -> Iterator[tuple[str, Exported]]:
    """Each job, with its place in the file in words; wrong use if a line is none."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise WrongUse(f"{file} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            place = f"{file}, line {number}"
            try:
                yield place, import_line(line)
            except InvalidInput as error:
                raise WrongUse(f"{place}: {error}") from error
