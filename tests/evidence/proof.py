"""What one run has proved: a file in docs/evidence, named after the proof."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

DIRECTORY = Path(__file__).parents[2] / "docs" / "evidence"
HELD = "held"
"""The result of a run in which nothing was found."""

Figure = int | float | str


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run, in numbers."""

    name: str
    """Its kind, and the store if there is one: `chaos-pg`, `simulation`. Also that of its file."""
    date: str
    """The day and minute of its end, UTC."""
    versions: dict[str, str]
    """Of whatever took part: Python, the server."""
    command: str
    """What to type to have it again."""
    figures: dict[str, Figure]
    """By what they count, in words, in the order in which they are to be shown."""
    result: str
    """`held`, or what did not hold."""

    @property
    def kind(self) -> str:
        """The section of the page that it belongs to."""
        return self.name.partition("-")[0]

    @property
    def store(self) -> str:
        """The store that it was about, or nothing."""
        return self.name.partition("-")[2]


def record(
    name: str,
    *,
    command: str,
    figures: Mapping[str, Figure],
    faults: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    directory: Path = DIRECTORY,
) -> Path:
    """Write down what a run that ends now has found, in place of what the last one had."""
    proof = Proof(
        name=name,
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        versions={
            "bee": version("bee-jobs"),
            "Python": platform.python_version(),
            **(versions or {}),
        },
        command=command,
        figures=dict(figures),
        result="; ".join(faults) or HELD,
    )
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(proof), indent=2) + b"\n")
    return file


def read(directory: Path = DIRECTORY) -> list[Proof]:
    """All proofs there are, by name."""
    files = sorted(directory.glob("*.json"))
    return [msgspec.json.decode(file.read_bytes(), type=Proof) for file in files]
