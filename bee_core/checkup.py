"""Asking the store, now and then, what ails it, and saying so when that is news."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bee_core.broker import Examined
from bee_core.clock import Clock
from bee_core.stored import Finding

EVERY = 30.0
REMIND = 600.0


class Checkup:
    """Runs beside a worker whose store can be examined."""

    def __init__(
        self,
        broker: Examined,
        clock: Clock,
        *,
        on_finding: Callable[[Finding], None],
        on_trouble: Callable[[str, Exception], None],
        on_recovered: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._on_finding = on_finding
        self._on_trouble = on_trouble
        self._on_recovered = on_recovered
        self._told: dict[str, float] = {}
        self._failing = False

    async def run(self) -> None:
        """Examine the store for ever. That it cannot be examined harms nobody, and is told once."""
        while True:
            await self._clock.sleep(EVERY)
            try:
                findings = await self._broker.examine()
            except Exception as error:
                if not self._failing:
                    self._on_trouble("examine", error)
                self._failing = True
                continue
            if self._failing:
                self._on_recovered("examine")
            self._failing = False
            self._tell(findings)

    def _tell(self, findings: Sequence[Finding]) -> None:
        """A topic at once when it comes up, and then every ten minutes."""
        now = self._clock.now()
        told, self._told = self._told, {}
        for finding in findings:
            last = told.get(finding.topic)
            if last is None or now - last >= REMIND:
                self._on_finding(finding)
                last = now
            self._told[finding.topic] = last
