"""Durations: one way in, wherever one is taken."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bee_core as bee
from bee_core.checks import check_draft
from bee_core.duration import LONGEST, seconds
from bee_core.testing.clock import ManualClock
from bee_memory import MemoryBroker
from tests.core.support import SendEmail

BAD: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -0.001,
    timedelta(seconds=-1),
    timedelta.max,
    True,
    False,
    "5",
    "",
    b"5",
    [5],
    5j,
    1e18,
    10**18,
]

queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)
email = SendEmail(to="x")


async def handle(job: SendEmail) -> None: ...


def worker(**options: Any) -> bee.Worker[SendEmail]:
    return bee.Worker(MemoryBroker(), "jobs", SendEmail, handle, **options)


async def run_hive(**options: Any) -> None:
    hive = bee.Hive(broker=MemoryBroker(), **options)
    hive.queue("jobs", SendEmail).handler(handle)
    await hive.run(until_empty=True)


async def lease(value: Any) -> object:
    return await MemoryBroker().lease("jobs", limit=1, duration=value, holder="test")


TAKERS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "Queue.send": ("delay", lambda value: queue.send(email, delay=value)),
    "Queue.draft": ("delay", lambda value: queue.draft(email, delay=value)),
    "Draft": ("delay", lambda value: check_draft(bee.Draft("a", b"", value))),
    "Reschedule": ("delay", bee.Reschedule),
    "Backoff min": ("Backoff min", lambda value: bee.Backoff(min=value, max=LONGEST)),
    "Backoff max": ("Backoff max", lambda value: bee.Backoff(min=0, max=value)),
    "Policy": ("Policy timeout", lambda value: bee.Policy(timeout=value)),
    "Retry": ("Retry after", lambda value: bee.Retry(after=value)),
    "Snooze": ("Snooze delay", bee.Snooze),
    "Worker lease": ("lease", lambda value: worker(lease=value)),
    "Worker poll": ("poll", lambda value: worker(poll=value)),
    "Worker grace": ("grace", lambda value: worker(grace=value)),
    "Worker cancel_grace": ("cancel_grace", lambda value: worker(cancel_grace=value)),
    "Worker.stop": ("grace", lambda value: worker().stop(grace=value)),
    "Hive lease": ("lease", lambda value: run_hive(lease=value)),
    "Hive poll": ("poll", lambda value: run_hive(poll=value)),
    "Hive grace": ("grace", lambda value: run_hive(grace=value)),
    "Hive cancel_grace": ("cancel_grace", lambda value: run_hive(cancel_grace=value)),
    "Broker.lease": ("duration", lease),
    "Broker.extend": ("duration", lambda value: MemoryBroker().extend("jobs", [], duration=value)),
    "Broker.wait": ("timeout", lambda value: MemoryBroker().wait("jobs", timeout=value)),
    "Inspector.prune": (
        "older_than",
        lambda value: MemoryBroker().prune("jobs", older_than=value),
    ),
    "ManualClock.advance": ("duration", lambda value: ManualClock().advance(value)),
}
NONE_IS_A_WISH = {"Policy", "Retry", "Worker.stop"}


async def call(taker: str, value: Any) -> object:
    result = TAKERS[taker][1](value)
    return await result if isinstance(result, Awaitable) else result


@pytest.mark.parametrize("value", BAD, ids=repr)
@pytest.mark.parametrize("taker", TAKERS)
async def test_a_bad_duration_is_refused_by_name(taker: str, value: Any) -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        await call(taker, value)

    assert str(caught.value).startswith(f"{TAKERS[taker][0]} must be ")


def test_a_whole_number_too_large_for_a_float_is_refused_by_name() -> None:
    with pytest.raises(bee.InvalidOption, match="delay must be"):
        seconds(10**400, "delay")


@pytest.mark.parametrize("taker", sorted(set(TAKERS) - NONE_IS_A_WISH))
async def test_none_is_no_duration(taker: str) -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        await call(taker, None)

    assert f"{TAKERS[taker][0]} must be seconds (int, float) or a timedelta, not NoneType" == str(
        caught.value
    )


@pytest.mark.parametrize("value", [1, 1.0, timedelta(seconds=1)], ids=repr)
@pytest.mark.parametrize("taker", sorted(set(TAKERS) - {"Broker.wait", "Draft"}))
async def test_seconds_and_timedeltas_are_taken_everywhere(taker: str, value: Any) -> None:
    await call(taker, value)


@pytest.mark.parametrize(
    ("taker", "shortest"),
    [("Policy", "0.001"), ("Worker lease", "0.05"), ("Worker poll", "0.001")],
)
async def test_what_must_not_be_zero_says_so(taker: str, shortest: str) -> None:
    with pytest.raises(bee.InvalidOption, match=f"must be between {shortest} s and"):
        await call(taker, 0)


def test_a_hive_refuses_a_bad_duration_when_it_is_declared() -> None:
    soon: Any = "soon"

    with pytest.raises(bee.InvalidOption, match="lease must be"):
        bee.Hive(broker=MemoryBroker(), lease=soon)


def test_a_hive_that_is_not_running_still_refuses_a_bad_grace() -> None:
    soon: Any = "soon"

    with pytest.raises(bee.InvalidOption, match="grace must be"):
        bee.Hive(broker=MemoryBroker()).stop(grace=soon)


async def test_a_draft_whose_delay_is_a_timedelta_is_refused_or_waits_that_long() -> None:
    broker = MemoryBroker()
    delay: Any = timedelta(seconds=5)

    try:
        await broker.send("jobs", [bee.Draft("a", b"", delay)])
    except bee.InvalidOption:
        return

    stored = await broker.get("jobs", "a")
    assert stored is not None
    assert 5.0 == pytest.approx(stored.due_at - stored.sent_at)


@given(st.floats(0, LONGEST))
def test_seconds_come_out_as_they_went_in(value: float) -> None:
    assert value == seconds(value, "delay")


@given(st.integers(0, int(LONGEST)))
def test_whole_seconds_and_timedeltas_are_the_same(value: int) -> None:
    assert float(value) == seconds(value, "delay") == seconds(timedelta(seconds=value), "delay")


@given(st.floats() | st.integers() | st.timedeltas() | st.booleans() | st.none() | st.text())
def test_anything_is_a_duration_in_range_or_refused(value: Any) -> None:
    try:
        number = seconds(value, "delay")
    except bee.InvalidOption:
        return
    assert 0 <= number <= LONGEST


def test_the_range_is_named() -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        seconds(-5, "delay")

    assert "delay must be between 0 s and 3.16224e+08 s, not -5.0" == str(caught.value)
