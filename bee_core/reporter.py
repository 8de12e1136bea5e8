"""Telling observers what a worker does: every event of a worker is made here."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from bee_core.attempt import Attempt
from bee_core.events import (
    AttemptLost,
    AttemptSettled,
    AttemptStarted,
    BrokerAilment,
    BrokerRecovered,
    BrokerTrouble,
    ConcurrencyChanged,
    Event,
    HandlerStuck,
    LoopBlocked,
    Observer,
    ResultDropped,
    ScheduleMissed,
    SettlementRefused,
    WorkerStarted,
    WorkerStopped,
    announce,
    log,
)
from bee_core.journal import log_events
from bee_core.message import attempt_number
from bee_core.meter import Reading
from bee_core.outcome import Outcome, Succeeded
from bee_core.settler import Ended
from bee_core.stored import Finding
from bee_core.ticks import Due


class Reporter:
    """Speaks for one worker. Without observers it costs next to nothing."""

    def __init__(self, queue: str, holder: str, observers: Sequence[Observer]) -> None:
        self._queue = queue
        self._holder = holder
        self._observers = tuple(observers)
        self._others = tuple(one for one in self._observers if one is not log_events)

    def worker_started(self) -> None:
        self._tell(WorkerStarted(self._queue, self._holder))

    def worker_stopped(self, settled: int, stuck: int) -> None:
        self._tell(WorkerStopped(self._queue, self._holder, settled, stuck))

    def attempt_started(self, attempt: Attempt, heard: Sequence[Observer]) -> None:
        receipt, number = attempt.lease.receipt, attempt_number(attempt.lease.counters)
        id, token, tag = receipt.id, receipt.token, attempt.tag
        announce(heard, AttemptStarted(self._queue, id, token, tag, number, self._holder))

    def attempts_settled(self, batch: Sequence[Ended], now: float) -> None:
        well = self.who_hears_what_goes_well()
        for ended in batch:
            went_well = ended.settlement.note is None and type(ended.outcome) is Succeeded
            if heard := well if went_well else self._observers:
                self._attempt_settled(ended, now - ended.attempt.started_at, heard)

    def _attempt_settled(self, ended: Ended, duration: float, heard: Sequence[Observer]) -> None:
        lease, settlement = ended.attempt.lease, ended.settlement
        event = AttemptSettled(
            self._queue,
            lease.receipt.id,
            lease.receipt.token,
            ended.attempt.tag,
            attempt_number(lease.counters),
            ended.outcome,
            settlement.disposition,
            lease.counters + settlement.counters,
            duration,
            settlement.note,
        )
        announce(heard, event)
        note = settlement.note
        if note is not None and note.reason == "succeeded" and note.detail:
            id, token = lease.receipt.id, lease.receipt.token
            self._tell(ResultDropped(self._queue, id, token, ended.attempt.tag, note.detail))

    def who_hears_what_goes_well(self) -> Sequence[Observer]:
        """The log says nothing of it unless it is told to, so it need not be made for it."""
        return self._observers if log.isEnabledFor(logging.DEBUG) else self._others

    def schedule_came(self, due: Due) -> None:
        if due.lapse is not None:
            name, lapse = due.declared.schedule.name, due.lapse
            self._tell(ScheduleMissed(self._queue, name, lapse.first, lapse.late, due.sent))

    def attempt_lost(self, attempt: Attempt, outcome: Outcome | None, *, certain: bool) -> None:
        id, token = attempt.lease.receipt.id, attempt.lease.receipt.token
        self._tell(AttemptLost(self._queue, id, token, attempt.tag, outcome, certain))

    def handler_stuck(self, attempt: Attempt, stuck: int) -> None:
        id, token = attempt.lease.receipt.id, attempt.lease.receipt.token
        self._tell(HandlerStuck(self._queue, id, token, attempt.tag, stuck))

    def settlement_refused(self, ended: Ended, error: Exception) -> None:
        receipt = ended.attempt.lease.receipt
        self._tell(SettlementRefused(self._queue, receipt.id, receipt.token, error))

    def loop_blocked(self, running: Sequence[Attempt], culprit: Attempt | None, stack: str) -> None:
        ids = tuple(attempt.lease.receipt.id for attempt in running)
        by = None if culprit is None else culprit.lease.receipt.id
        self._tell(LoopBlocked(self._queue, ids, stack, by))

    def trouble(self, verb: str, error: Exception) -> None:
        self._tell(BrokerTrouble(self._queue, verb, error))

    def recovered(self, verb: str) -> None:
        self._tell(BrokerRecovered(self._queue, verb))

    def ailment(self, finding: Finding) -> None:
        self._tell(BrokerAilment(self._queue, finding))

    def concurrency_changed(self, size: int, reading: Reading) -> None:
        self._tell(ConcurrencyChanged(self._queue, size, reading.cpu, reading.lag))

    def _tell(self, event: Event) -> None:
        announce(self._observers, event)
