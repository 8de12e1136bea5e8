"""What a planted bug is, and the text that it makes of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Bug:
    """One fragment of one file that is replaced; and what ought to notice it, most likely first.

    `proof` names tests of the conformance suite or modules of it; for the worker, tests as pytest
    names them.
    """

    name: str
    file: str
    old: str
    new: str
    proof: tuple[str, ...]

    def altered(self) -> str:
        """The file's text with the bug in it."""
        text = (ROOT / self.file).read_text("utf-8")
        found = text.count(self.old)
        assert found == 1, f"{self.name}: {self.file} has {found} of {self.old!r}, not one"
        return text.replace(self.old, self.new)
