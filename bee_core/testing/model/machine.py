"""The state machine: which steps there are, and what is looked at after each.

`run_model` is all that a test needs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from bee_core.broker import Store
from bee_core.message import Throttle
from bee_core.testing.model.card import Card
from bee_core.testing.model.driver import Driver
from bee_core.testing.model.steps import Step, steps
from bee_core.testing.model.subject import Advance, Disturb, Subject


def run_model(
    make_broker: Callable[[], Store],
    *,
    runs: int = 100,
    steps: int = 50,
    seed: int = 0,
    advance: Advance | None = None,
    disturb: Disturb | None = None,
    shrink: bool = True,
) -> Card:
    """Hold a broker against the model; raise, with the steps that led there, where they differ.

    `make_broker` is called once, and what it makes is opened and closed here; clients are clones of
    it. It runs in an event loop of its own, on one queue of its own, which is dropped at the end.

    `advance` moves the store's clock forward by so many seconds; without it the clock is left
    alone, and nothing waits for longer than a moment. `disturb` does something to the store that
    must not matter, now and then. `shrink` looks for the shortest run that shows a difference,
    which takes longer than to find one.
    """
    card = examine(
        make_broker,
        runs=runs,
        steps=steps,
        seed=seed,
        advance=advance,
        disturb=disturb,
        shrink=shrink,
    )
    if card.failure is not None:
        raise card.failure
    return card


def examine(
    make_broker: Callable[[], Store],
    *,
    runs: int,
    steps: int,
    seed: int,
    advance: Advance | None = None,
    disturb: Disturb | None = None,
    shrink: bool = True,
) -> Card:
    """Like `run_model`, but a difference is written on the card."""
    began = time.monotonic()
    failure = None
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        broker = make_broker()
        subject = Subject(broker, loop, advance=advance, disturb=disturb)
        try:
            name = subject.run(subject.open())
            try:
                _run(subject, runs, steps, seed, shrink)
            except Exception as error:
                failure = error
        finally:
            subject.run(subject.close())
    took = time.monotonic() - began
    return Card(name, runs, steps, seed, took, subject.tally, failure)


def _run(subject: Subject, runs: int, steps: int, number: int, shrink: bool) -> None:
    machine = seed(number)(type("BrokerMachine", (BrokerMachine,), {"subject": subject}))
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=how)


class BrokerMachine(RuleBasedStateMachine):
    """One run: a queue that begins empty, and up to so many steps."""

    subject: ClassVar[Subject]

    def __init__(self) -> None:
        super().__init__()
        self._driver = Driver(self.subject)
        self._is_sound = False

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._is_sound = False
        self.subject.run(work)
        self._is_sound = True

    @initialize(per_key=st.sampled_from([1, 1, 2, None]), is_plain=st.booleans())
    def begin(self, per_key: int | None, is_plain: bool) -> None:
        """One throttle for all who lease; in some runs plain messages only: stores hurry there."""
        self._run(self._driver.begin(Throttle(per_key=per_key), is_plain))

    @rule(step=steps())
    def do(self, step: Step) -> None:
        """One rule for all steps: so they are as frequent as `steps` says, in every run."""
        self._run(self._driver.do(step))

    def teardown(self) -> None:
        """What is left is worked off, unless a difference was found."""
        if self._is_sound:
            self._run(self._driver.work_off())
