"""Bugs planted in the worker. Each must be found by a limited number of seeds."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias
from unittest.mock import patch

import msgspec

from bee_core import attempt, held, verdict
from bee_core import outcome as outcomes
from bee_core.attempt import Attempt
from bee_core.broker import Broker
from bee_core.errors import OutcomeUnknown
from bee_core.fetcher import Fetcher
from bee_core.heartbeat import Heartbeat
from bee_core.held import Held
from bee_core.message import Counters, Settlement
from bee_core.outcome import Failed, Interrupted, Outcome, TimedOut
from bee_core.settler import Settler
from bee_core.slots import Slots

Mutant: TypeAlias = Callable[[], AbstractContextManager[Any]]

MUTANTS: dict[str, Mutant] = {}
"""By what is wrong."""


def planted(mutant: Callable[[], Iterator[None]]) -> Mutant:
    made = contextmanager(mutant)
    MUTANTS[mutant.__name__.replace("_", " ")] = made
    return made


def _patched(owner: Any, name: str, new: Any) -> AbstractContextManager[Any]:
    return patch.object(owner, name, new)


@planted
def a_settlement_without_an_answer_is_taken_for_done() -> Iterator[None]:
    send = Settler._send

    async def trusting(self: Settler, settlements: Sequence[Settlement]) -> Any:
        try:
            return await send(self, settlements)
        except OutcomeUnknown:
            return set()

    with _patched(Settler, "_send", trusting):
        yield


@planted
def every_settlement_is_sent_twice() -> Iterator[None]:
    send = Settler._send

    async def twice(self: Settler, settlements: Sequence[Settlement]) -> Any:
        lost = await send(self, settlements)
        await send(self, settlements)
        return lost

    with _patched(Settler, "_send", twice):
        yield


@planted
def a_job_whose_lease_is_lost_is_settled() -> Iterator[None]:
    def counted(self: Attempt, outcome: Outcome) -> Outcome:
        ending = self.ending
        return ending if isinstance(ending, TimedOut | Interrupted) else outcome

    with _patched(Attempt, "counted", counted):
        yield


@planted
def a_job_whose_lease_is_lost_runs_on() -> Iterator[None]:
    with _patched(Held, "_on_lost", lambda self, attempts, how: None):
        yield


@planted
def a_lease_that_cannot_be_renewed_is_not_given_up() -> Iterator[None]:
    with _patched(Heartbeat, "_after_failure", lambda self, error: self._margin):
        yield


@planted
def the_heartbeat_renews_too_late() -> Iterator[None]:
    chosen = Heartbeat._chosen

    def late(self: Heartbeat, *args: Any) -> Sequence[Attempt]:
        now = self._clock.now()
        return [old for old in chosen(self, *args) if old.leased_until <= now]

    with _patched(Heartbeat, "_chosen", late):
        yield


@planted
def the_heartbeat_sleeps_for_as_long_as_a_lease() -> Iterator[None]:
    look = Heartbeat._round

    async def drowsy(self: Heartbeat, broker: Broker) -> float:
        pause = await look(self, broker)
        return pause if pause == math.inf else self._lease

    with _patched(Heartbeat, "_round", drowsy):
        yield


@planted
def an_interrupted_job_counts_an_error() -> Iterator[None]:
    tally = outcomes.tally

    def harsh(how: Outcome) -> Counters:
        return Counters(errors=1) if isinstance(how, Interrupted) else tally(how)

    with _patched(held, "tally", harsh):
        yield


@planted
def a_timeout_counts_twice() -> Iterator[None]:
    tally = outcomes.tally

    def harsh(how: Outcome) -> Counters:
        return Counters(timeouts=2) if isinstance(how, TimedOut) else tally(how)

    with _patched(held, "tally", harsh):
        yield


@planted
def an_error_is_not_counted() -> Iterator[None]:
    tally = outcomes.tally

    def mild(how: Outcome) -> Counters:
        return Counters() if isinstance(how, Failed) else tally(how)

    with _patched(held, "tally", mild):
        yield


@planted
def a_permanent_error_is_repeated() -> Iterator[None]:
    of_error = attempt.outcome_of_error

    def hopeful(error: BaseException) -> Outcome:
        outcome = of_error(error)
        return Failed(error) if isinstance(outcome, Failed) and outcome.permanent else outcome

    with _patched(attempt, "outcome_of_error", hopeful):
        yield


@planted
def what_was_refused_is_held_for_ever() -> Iterator[None]:
    def keep(self: Held, ended: Any, error: Exception) -> None:
        self._report.settlement_refused(ended, error)

    with _patched(Held, "_on_refused", keep):
        yield


@planted
def what_is_lost_as_it_is_settled_is_held_for_ever() -> Iterator[None]:
    def keep(self: Held, ended: Any, certain: bool) -> None:
        self._report.attempt_lost(ended.attempt, ended.outcome, certain=certain)

    with _patched(Held, "_on_settlement_lost", keep):
        yield


@planted
def more_is_leased_than_there_is_room_for() -> Iterator[None]:
    room = Held.room
    with _patched(Held, "room", lambda self: room(self) + 2):
        yield


@planted
def one_more_runs_than_there_are_slots() -> Iterator[None]:
    def start_early(self: Held) -> None:
        while self._early.line and len(self.slots.running) <= self.slots.size:
            self._start(self._early.line.popleft(), self._clock.now(), ())

    with _patched(Held, "_start_early", start_early):
        yield


@planted
def the_end_does_not_wait_for_the_jobs() -> Iterator[None]:
    async def drain(self: Held) -> None:
        await asyncio.sleep(0)

    with _patched(Held, "drain", drain):
        yield


@planted
def the_end_does_not_wait_for_the_settlements() -> Iterator[None]:
    async def flush(self: Held) -> None:
        return

    with _patched(Held, "flush", flush):
        yield


@planted
def a_killed_worker_settles() -> Iterator[None]:
    with _patched(Settler, "drop", lambda self: None):
        yield


@planted
def a_timeout_is_not_kept() -> Iterator[None]:
    start = Slots.start

    def start_for_ever(self: Slots, attempt: Attempt) -> None:
        attempt.deadline = math.inf
        start(self, attempt)

    with _patched(Slots, "start", start_for_ever):
        yield


@planted
def who_has_stalled_too_often_runs_again() -> Iterator[None]:
    with _patched(held, "is_poisoned", lambda rules, counters: False):
        yield


@planted
def a_worker_that_met_trouble_takes_no_more() -> Iterator[None]:
    take = Fetcher._take

    async def shocked(self: Fetcher, *asked: Any) -> Any:
        leases = await take(self, *asked)
        if leases is None:
            await self._more_room.wait()
        return leases

    with _patched(Fetcher, "_take", shocked):
        yield


@planted
def what_follows_is_sent_after_a_failure_too() -> Iterator[None]:
    settlement_for = verdict.settlement_for

    def eager(attempt: Attempt, *args: Any) -> Settlement:
        settlement = settlement_for(attempt, *args)
        follow_ups = () if attempt.delivery is None else attempt.delivery.follow_ups
        return msgspec.structs.replace(settlement, then=follow_ups)

    with _patched(held, "settlement_for", eager):
        yield


@planted
def what_follows_is_forgotten() -> Iterator[None]:
    settlement_for = verdict.settlement_for

    def forgetful(attempt: Attempt, *args: Any) -> Settlement:
        settlement = settlement_for(attempt, *args)
        return settlement if attempt.tag != "work" else msgspec.structs.replace(settlement, then=())

    with _patched(held, "settlement_for", forgetful):
        yield


@planted
def the_heartbeat_outlives_its_worker() -> Iterator[None]:
    async def stop(self: Heartbeat) -> None:
        return

    with _patched(Heartbeat, "stop", stop):
        yield


@planted
def a_worker_that_stops_does_not_interrupt_its_jobs() -> Iterator[None]:
    with _patched(Slots, "interrupt", lambda self: None):
        yield
