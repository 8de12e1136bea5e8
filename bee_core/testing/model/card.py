"""The conformance card: what was checked of which broker, how often, and with which result."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

GUARANTEES = {
    "an accepted message is in exactly one place": "steps",
    "messages come in order: priority, time due, first in": "messages leased",
    "a token is greater than all before it": "messages leased",
    "a lease that ran out goes to another, as a stall": "leases taken over",
    "the holder settles, once": "settled in time",
    "settling late counts while nobody took over": "settled late",
    "who lost a lease, or settled it, settles nothing": "settled though lost",
    "who never had a lease settles nothing": "settled with a forged receipt",
    "the holder extends": "extended in time",
    "extending late counts while nobody took over": "extended late",
    "who lost a lease, or settled it, extends nothing": "extended though lost",
    "who never had a lease extends nothing": "extended with a forged receipt",
    "an id that is live is kept, refused, changed or followed": "drafts of a live id",
    "a key is held by so many at once": "leases with a key",
    "who awaits reports is due when they are there": "reports heard",
    "what ends is archived, and can be restored": "restored",
    "what is cancelled ends, whoever holds it": "cancelled",
    "a call whose answer was lost may be repeated": "answers lost",
    "a client that is gone takes nothing with it": "crashes",
    "what the clock brings, it brings in time": "moves of the clock",
    "a disturbance changes nothing": "disturbances",
    "in the end nothing is stuck": "runs worked off",
}
"""Each promise, and what is counted of it."""


@dataclass(frozen=True)
class Card:
    """One examination of one broker. Its text is made to be shown."""

    broker: str
    runs: int
    steps: int
    seed: int
    seconds: float
    tally: Mapping[str, int]
    failure: BaseException | None = None

    @property
    def versions(self) -> str:
        """Of all that took part, but the store."""
        return (
            f"bee-jobs {version('bee-jobs')}, Python {platform.python_version()}, "
            f"Hypothesis {version('hypothesis')}"
        )

    def __str__(self) -> str:
        done = f"{self.tally.get('runs', 0):,} runs, {self.tally.get('steps', 0):,} steps"
        asked = f"of {self.runs:,} x {self.steps}, seed {self.seed}, {self.seconds:.0f} s"
        lines = [
            "conformance card: the model test",
            f"  broker    {self.broker}",
            f"  versions  {self.versions}",
            f"  size      {done} ({asked})",
            "",
            f"  {'checked':<58}{'times':>10}",
        ]
        for promise, counted in GUARANTEES.items():
            times = self.tally.get(counted, 0)
            lines.append(f"  {promise:<58}{f'{times:,}' if times else 'not met':>10}")
        return "\n".join([*lines, "", f"  result    {self._result}"])

    @property
    def _result(self) -> str:
        if self.failure is None:
            return "passed"
        first = f"{type(self.failure).__name__}: {self.failure}".splitlines()[0]
        return f"FAILED: {first}"
