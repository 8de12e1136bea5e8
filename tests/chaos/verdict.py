"""How a run of chaos ends: its table, its faults, and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Report(Protocol):
    """The outcome of a run."""

    @property
    def faults(self) -> Sequence[str]:
        """What must not be. Empty after a good run."""
        ...

    def lines(self) -> Sequence[str]:
        """The report as a small table."""
        ...


def tell(report: Report) -> int:
    """Print it; return 1 if there were faults."""
    print("\n".join(report.lines()))
    for fault in report.faults:
        print(f"FAULT: {fault}")
    return 1 if report.faults else 0
