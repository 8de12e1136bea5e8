"""The state machine: which steps there are, and what is looked at after each.

`run_model` is all that a test needs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bee_core.broker import Store
from bee_core.disposition import Terminal
from bee_core.message import Draft, Settlement, Throttle
from bee_core.testing.model import steps
from bee_core.testing.model.driver import Driver
from bee_core.testing.model.subject import CLIENTS, Advance, Disturb, Subject

CLIENT = st.integers(0, CLIENTS - 1)
IS_LOST = st.sampled_from([False] * 5 + [True])
OPERATIONS = ["pause", "resume", "resume", "prune", "prune all", "purge", "drop"]


def run_model(
    make_broker: Callable[[], Store],
    *,
    runs: int = 100,
    steps: int = 50,
    seed: int = 0,
    advance: Advance | None = None,
    disturb: Disturb | None = None,
) -> None:
    """Hold a broker against the model; raise AssertionError, with the steps, if they differ.

    `make_broker` is called once, and what it makes is opened and closed here; clients are clones of
    it. It runs in an event loop of its own, on one queue of its own, which is dropped at the end.

    `advance` moves the store's clock forward by so many seconds; without it nothing waits for
    longer than a moment, and no clock has to be moved. `disturb` does something to the store that
    must not matter, now and then.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        broker = make_broker()
        loop.run_until_complete(broker.__aenter__())
        try:
            subject = Subject(broker, loop, advance=advance, disturb=disturb)
            loop.run_until_complete(subject.open())
            try:
                _run(subject, runs, steps, seed)
            finally:
                loop.run_until_complete(subject.close())
        finally:
            loop.run_until_complete(broker.aclose())


def _run(subject: Subject, runs: int, steps: int, number: int) -> None:
    machine = seed(number)(type("BrokerMachine", (BrokerMachine,), {"subject": subject}))
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


class BrokerMachine(RuleBasedStateMachine):
    """One run: a queue that begins empty, and up to so many steps."""

    subject: ClassVar[Subject]

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.subject)
        self._is_sound = False

    def _do(self, step: Coroutine[Any, Any, None]) -> None:
        self._is_sound = False
        self.subject.run(step)
        self._is_sound = True

    @initialize(per_key=st.sampled_from([1, 1, 2, None]))
    def begin(self, per_key: int | None) -> None:
        self._do(self.driver.begin(Throttle(per_key=per_key)))

    @rule(client=CLIENT, drafts=steps.DRAFTS, is_lost=IS_LOST)
    def send(self, client: int, drafts: Sequence[Draft], is_lost: bool) -> None:
        self._do(self.driver.send(client, drafts, is_lost))

    @rule(client=CLIENT, draft=steps.DRAFT)
    def send_one(self, client: int, draft: Draft) -> None:
        self._do(self.driver.send(client, [draft]))

    @rule(client=CLIENT, limit=st.integers(1, 4), duration=steps.DURATION, is_lost=IS_LOST)
    def lease(self, client: int, limit: int, duration: float, is_lost: bool) -> None:
        self._do(self.driver.lease(client, limit, duration, is_lost))

    @rule(client=CLIENT, duration=steps.DURATION)
    def lease_one(self, client: int, duration: float) -> None:
        self._do(self.driver.lease(client, 1, duration))

    @precondition(lambda self: self.driver.receipts)
    @rule(client=CLIENT, which=steps.CHOICES, duration=steps.DURATION, is_lost=IS_LOST)
    def extend(
        self, client: int, which: Sequence[steps.Choice], duration: float, is_lost: bool
    ) -> None:
        receipts = steps.chosen(which, self.driver.receipts)
        self._do(self.driver.extend(client, receipts, duration, is_lost))

    @precondition(lambda self: self.driver.receipts)
    @rule(client=CLIENT, which=steps.CHOICES, endings=steps.ENDINGS, is_lost=IS_LOST)
    def settle(
        self,
        client: int,
        which: Sequence[steps.Choice],
        endings: Sequence[Settlement],
        is_lost: bool,
    ) -> None:
        receipts = steps.chosen(which, self.driver.receipts)
        self._do(self.driver.settle(client, steps.settlements(receipts, endings), is_lost))

    @precondition(lambda self: self.driver.receipts)
    @rule(client=CLIENT, ending=steps.ENDING)
    def settle_the_newest(self, client: int, ending: Settlement) -> None:
        receipts = self.driver.receipts[-1:]
        self._do(self.driver.settle(client, steps.settlements(receipts, [ending])))

    @rule(
        client=CLIENT,
        ids=steps.IDS_OF_A_CALL,
        to=steps.TERMINAL,
        running=st.booleans(),
        is_lost=IS_LOST,
    )
    def cancel(
        self, client: int, ids: Sequence[str], to: Terminal, running: bool, is_lost: bool
    ) -> None:
        self._do(self.driver.cancel(client, steps.apart(ids), to, running, is_lost))

    @rule(client=CLIENT, ids=steps.IDS_OF_A_CALL, is_lost=IS_LOST)
    def restore(self, client: int, ids: Sequence[str], is_lost: bool) -> None:
        self._do(self.driver.restore(client, ids, is_lost))

    @rule(what=st.sampled_from(OPERATIONS))
    def operate(self, what: str) -> None:
        self._do(self.driver.operate(what))

    @rule(client=CLIENT)
    def crash(self, client: int) -> None:
        self._do(self.subject.crash(client))

    @precondition(lambda self: self.subject.can_be_moved)
    @rule(duration=st.sampled_from([50.0, 100.0, 150.0, 300.0, steps.LONG]))
    def time_passes(self, duration: float) -> None:
        self._do(self.subject.advance(duration))

    @precondition(lambda self: self.subject.can_be_disturbed)
    @rule()
    def disturb(self) -> None:
        self._do(self.subject.disturb())

    @invariant()
    def everything_is_as_promised(self) -> None:
        self._do(self.driver.look())

    def teardown(self) -> None:
        if self._is_sound:
            self._do(self.driver.work_off())
