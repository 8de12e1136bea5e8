"""A worker asks its store what ails it, and says so."""

from __future__ import annotations

from collections.abc import Sequence

import bee_core as bee
from bee_core.checkup import EVERY, REMIND
from bee_core.events import BrokerAilment, BrokerRecovered, BrokerTrouble, Event
from bee_core.testing import ManualClock
from bee_memory import MemoryBroker

from .support import Work, nothing

OLD = bee.Finding("old transaction", "open for 70 s. End it")
DEAD = bee.Finding("dead rows", "100,000 of them. See whether autovacuum runs")


class Ailing(MemoryBroker):
    """Has whatever a test says it has."""

    findings: Sequence[bee.Finding] = ()
    error: Exception | None = None
    examined = 0

    async def examine(self) -> Sequence[bee.Finding]:
        self.examined += 1
        if self.error is not None:
            raise self.error
        return self.findings


class Patient:
    """A worker on a store that ails, and what it said."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.broker = Ailing(clock=self.clock)
        self.events: list[Event] = []
        self.worker = bee.Worker(
            self.broker, "jobs", Work, nothing, clock=self.clock, observers=[self.events.append]
        )

    def heard(self) -> list[str]:
        return [e.finding.topic for e in self.events if isinstance(e, BrokerAilment)]


async def test_what_ails_the_store_is_told_once_and_again_after_a_while() -> None:
    patient = Patient()
    async with patient.worker.working():
        await patient.worker.started()
        await patient.clock.advance(2 * EVERY)
        assert [] == patient.heard()

        patient.broker.findings = [OLD]
        await patient.clock.advance(REMIND)
        assert ["old transaction"] == patient.heard()

        await patient.clock.advance(EVERY)
        assert ["old transaction"] * 2 == patient.heard()


async def test_what_has_passed_and_comes_back_is_told_at_once() -> None:
    patient = Patient()
    async with patient.worker.working():
        await patient.worker.started()
        for findings in ([OLD], [OLD, DEAD], [], [OLD]):
            patient.broker.findings = findings
            await patient.clock.advance(EVERY)

        assert ["old transaction", "dead rows", "old transaction"] == patient.heard()


async def test_a_store_that_cannot_be_examined_is_still_worked_with() -> None:
    patient = Patient()
    async with patient.worker.working():
        await patient.worker.started()
        patient.broker.error = RuntimeError("a bug of a driver")
        await patient.clock.advance(3 * EVERY)
        patient.broker.error = None
        await patient.clock.advance(2 * EVERY)

        queue = bee.Queue(patient.broker, "jobs", Work)
        await queue.send(Work())
        await patient.clock.advance(1)
        assert 0 == (await patient.broker.stats("jobs")).live

    told = [type(e) for e in patient.events if isinstance(e, BrokerTrouble | BrokerRecovered)]
    assert [BrokerTrouble, BrokerRecovered] == told
    assert 5 == patient.broker.examined
