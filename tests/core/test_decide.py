"""decide: every cell of strategy, outcome and count, written out by hand."""

from __future__ import annotations

import ast
import inspect
from itertools import count
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bee_core import decide as public_decide
from bee_core.decide import UNKNOWN, decide
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import ZERO, Counters
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
    tally,
)
from bee_core.strategy import Backoff, Repeat, Rules
from tests.core.decision_table import PAGE, page

BACKOFF = Backoff(min=10, factor=3, max=100, jitter=0)
SECOND = Backoff(min=1, max=1, jitter=0)
FRONT = Reschedule(front=True)
BOOM = RuntimeError("boom")
ALWAYS = 0.5

# strategy, counter, after an error or a timeout, after a stall
REPEATABLE: list[tuple[Delete | Archive | Repeat, int, Disposition, Disposition]] = [
    (Delete(), 1, Delete(), Delete()),
    (Delete(), 2, Delete(), Delete()),
    (Delete(), 1_000_000, Delete(), Delete()),
    (Archive(), 1, Archive(), Archive()),
    (Archive(), 2, Archive(), Archive()),
    (Archive(), 1_000_000, Archive(), Archive()),
    (Repeat(0), 1, Archive(), Archive()),
    (Repeat(0), 2, Archive(), Archive()),
    (Repeat(0, Delete()), 1, Delete(), Delete()),
    (Repeat(1), 1, Reschedule(10.0), FRONT),
    (Repeat(1), 2, Archive(), Archive()),
    (Repeat(1), 3, Archive(), Archive()),
    (Repeat(3), 1, Reschedule(10.0), FRONT),
    (Repeat(3), 2, Reschedule(30.0), FRONT),
    (Repeat(3), 3, Reschedule(90.0), FRONT),
    (Repeat(3), 4, Archive(), Archive()),
    (Repeat(3), 5, Archive(), Archive()),
    (Repeat(3), 1_000_000, Archive(), Archive()),
    (Repeat(3, Archive()), 3, Reschedule(90.0), FRONT),
    (Repeat(3, Archive()), 4, Archive(), Archive()),
    (Repeat(3, Delete()), 1, Reschedule(10.0), FRONT),
    (Repeat(3, Delete()), 3, Reschedule(90.0), FRONT),
    (Repeat(3, Delete()), 4, Delete(), Delete()),
    (Repeat(3, Delete()), 1_000_000, Delete(), Delete()),
    (Repeat(3, backoff=SECOND), 1, Reschedule(1.0), FRONT),
    (Repeat(3, backoff=SECOND), 3, Reschedule(1.0), FRONT),
    (Repeat(3, backoff=SECOND), 4, Archive(), Archive()),
    (Repeat(3, Delete(), SECOND), 3, Reschedule(1.0), FRONT),
    (Repeat(3, Delete(), SECOND), 4, Delete(), Delete()),
    (Repeat(None), 1, Reschedule(10.0), FRONT),
    (Repeat(None), 2, Reschedule(30.0), FRONT),
    (Repeat(None), 3, Reschedule(90.0), FRONT),
    (Repeat(None), 4, Reschedule(100.0), FRONT),
    (Repeat(None), 1_000_000, Reschedule(100.0), FRONT),
    (Repeat(None, Delete()), 1, Reschedule(10.0), FRONT),
    (Repeat(None, Delete()), 1_000_000, Reschedule(100.0), FRONT),
    (Repeat(None, backoff=SECOND), 1, Reschedule(1.0), FRONT),
    (Repeat(None, backoff=SECOND), 1_000_000, Reschedule(1.0), FRONT),
]


@pytest.mark.parametrize(("strategy", "errors", "expected", "_"), REPEATABLE)
def test_an_error_is_decided_by_on_error_and_the_errors_so_far(
    strategy: Any, errors: int, expected: Disposition, _: object
) -> None:
    rules = Rules(on_error=strategy, backoff=BACKOFF)

    assert expected == decide(rules, Failed(BOOM), Counters(errors=errors), ALWAYS)


@pytest.mark.parametrize(("strategy", "timeouts", "expected", "_"), REPEATABLE)
def test_a_timeout_is_decided_by_on_timeout_and_the_timeouts_so_far(
    strategy: Any, timeouts: int, expected: Disposition, _: object
) -> None:
    rules = Rules(on_timeout=strategy, backoff=BACKOFF)

    assert expected == decide(rules, TimedOut(60.0), Counters(timeouts=timeouts), ALWAYS)


@pytest.mark.parametrize(("strategy", "stalls", "_", "expected"), REPEATABLE)
def test_a_stall_is_decided_by_on_stall_and_keeps_its_place(
    strategy: Any, stalls: int, _: object, expected: Disposition
) -> None:
    rules = Rules(on_stall=strategy, backoff=BACKOFF)

    assert expected == decide(rules, Stalled(), Counters(stalls=stalls), ALWAYS)


@pytest.mark.parametrize("result", [None, 0, "done", RuntimeError("returned, not raised")])
@pytest.mark.parametrize("strategy", [Delete(), Archive()])
def test_a_success_is_what_on_success_says(strategy: Delete | Archive, result: object) -> None:
    many = Counters(**dict.fromkeys(Counters.__struct_fields__, 99))

    assert strategy == decide(Rules(on_success=strategy), Succeeded(result), ZERO, ALWAYS)
    assert strategy == decide(Rules(on_success=strategy), Succeeded(result), many, ALWAYS)


@pytest.mark.parametrize("releases", [1, 2, 1_000_000])
@pytest.mark.parametrize("strategy", [Delete(), Archive(), Reschedule(5.0), FRONT])
def test_an_interruption_is_what_on_interrupt_says_however_often_it_happens(
    strategy: Disposition, releases: int
) -> None:
    rules = Rules(on_interrupt=strategy)

    assert strategy == decide(rules, Interrupted(), Counters(releases=releases), ALWAYS)


@pytest.mark.parametrize("after", [None, 7.0])
@pytest.mark.parametrize("errors", [1, 3, 4])
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Delete(), Delete()),
        (Archive(), Archive()),
        (Repeat(0), Archive()),
        (Repeat(3), Archive()),
        (Repeat(3, Delete()), Delete()),
        (Repeat(None), Archive()),
        (Repeat(None, Delete()), Delete()),
        (Repeat(None, Delete(), SECOND), Delete()),
    ],
)
def test_a_permanent_error_is_never_repeated(
    strategy: Any, expected: Disposition, errors: int, after: float | None
) -> None:
    outcome = Failed(BOOM, permanent=True, retry=after is not None, after=after)

    assert expected == decide(Rules(on_error=strategy), outcome, Counters(errors=errors), ALWAYS)


@pytest.mark.parametrize(
    ("strategy", "errors", "after", "expected"),
    [
        (Delete(), 1, None, Reschedule(10.0)),
        (Delete(), 2, None, Reschedule(30.0)),
        (Delete(), 1, 7.0, Reschedule(7.0)),
        (Archive(), 1, None, Reschedule(10.0)),
        (Archive(), 1_000_000, None, Reschedule(100.0)),
        (Archive(), 1_000_000, 7.0, Reschedule(7.0)),
        (Repeat(0), 1, None, Archive()),
        (Repeat(0), 1, 7.0, Archive()),
        (Repeat(3), 1, None, Reschedule(10.0)),
        (Repeat(3), 1, 7.0, Reschedule(7.0)),
        (Repeat(3), 1, 0.0, Reschedule(0.0)),
        (Repeat(3), 1, 86_400.0, Reschedule(86_400.0)),
        (Repeat(3), 3, None, Reschedule(90.0)),
        (Repeat(3), 3, 7.0, Reschedule(7.0)),
        (Repeat(3), 4, None, Archive()),
        (Repeat(3), 4, 7.0, Archive()),
        (Repeat(3, Delete()), 4, 7.0, Delete()),
        (Repeat(3, backoff=SECOND), 2, None, Reschedule(1.0)),
        (Repeat(3, backoff=SECOND), 2, 7.0, Reschedule(7.0)),
        (Repeat(None), 1_000_000, None, Reschedule(100.0)),
        (Repeat(None), 1_000_000, 7.0, Reschedule(7.0)),
    ],
)
def test_retry_overrules_a_strategy_that_would_not_repeat_and_obeys_the_limit_of_one_that_does(
    strategy: Any, errors: int, after: float | None, expected: Disposition
) -> None:
    rules = Rules(on_error=strategy, backoff=BACKOFF)
    outcome = Failed(BOOM, retry=True, after=after)

    assert expected == decide(rules, outcome, Counters(errors=errors), ALWAYS)


@pytest.mark.parametrize(
    ("unknowns", "expected"),
    [
        (1, Reschedule(1.0)),
        (2, Reschedule(2.0)),
        (3, Reschedule(4.0)),
        (4, Reschedule(8.0)),
        (5, Reschedule(16.0)),
        (6, Reschedule(32.0)),
        (7, Reschedule(60.0)),
        (8, Reschedule(60.0)),
        (15, Reschedule(60.0)),
        (16, Archive()),
        (17, Archive()),
    ],
)
def test_an_unknown_kind_is_given_time_and_then_archived_whatever_the_policy(
    unknowns: int, expected: Disposition
) -> None:
    strict = Rules(on_error=Delete(), on_timeout=Delete(), on_stall=Delete(), backoff=BACKOFF)

    for rules in (Rules(), strict):
        assert expected == decide(rules, Unknown("?"), Counters(unknowns=unknowns), 0.0)


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_an_unknown_kind_waits_ten_minutes_in_all(chance: float) -> None:
    waited = 0.0
    for unknowns in count(1):
        disposition = decide(Rules(), Unknown("?"), Counters(unknowns=unknowns), chance)
        if not isinstance(disposition, Reschedule):
            break
        waited += disposition.delay

    assert Archive() == disposition
    assert 9 * 60 <= waited <= 11 * 60


@pytest.mark.parametrize(
    "rules", [Rules(), Rules(on_error=Delete(), on_success=Delete(), on_stall=Repeat(None))]
)
def test_a_malformed_message_is_archived_whatever_the_policy(rules: Rules) -> None:
    assert Archive() == decide(rules, Malformed("not JSON"), Counters(deliveries=1), ALWAYS)


@pytest.mark.parametrize("ruling", [Delete(), Archive(), Reschedule(7.0), FRONT])
@pytest.mark.parametrize("releases", [0, 1, 1_000_000])
def test_what_a_handler_rules_is_what_happens(ruling: Disposition, releases: int) -> None:
    rules = Rules(on_success=Archive(), on_error=Delete())

    assert ruling == decide(rules, Ruled(ruling), Counters(releases=releases), ALWAYS)


def test_the_defaults_are_those_that_the_docstring_of_policy_names() -> None:
    fast = Backoff(jitter=0)

    def by_default(outcome: Outcome, counters: Counters = ZERO) -> Disposition:
        return decide(Rules(backoff=fast), outcome, counters, 0.0)

    assert Delete() == by_default(Succeeded())
    assert Archive() == by_default(Failed(BOOM), Counters(errors=1))
    assert Reschedule(2.0) == by_default(TimedOut(60), Counters(timeouts=1))
    assert Reschedule(4.0) == by_default(TimedOut(60), Counters(timeouts=2))
    assert Archive() == by_default(TimedOut(60), Counters(timeouts=3))
    assert FRONT == by_default(Stalled(), Counters(stalls=3))
    assert Archive() == by_default(Stalled(), Counters(stalls=4))
    assert FRONT == by_default(Interrupted(), Counters(releases=1))


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Succeeded(), Counters()),
        (Failed(BOOM), Counters(errors=1)),
        (Failed(BOOM, permanent=True), Counters(errors=1)),
        (Failed(BOOM, retry=True), Counters(errors=1)),
        (Failed(BOOM, retry=True, after=7.0), Counters(errors=1)),
        (TimedOut(60.0), Counters(timeouts=1)),
        (Stalled(), Counters(stalls=1)),
        (Interrupted(), Counters(releases=1)),
        (Unknown("?"), Counters(unknowns=1)),
        (Malformed("?"), Counters()),
        (Ruled(Delete()), Counters()),
        (Ruled(Archive()), Counters()),
        (Ruled(Reschedule(7.0)), Counters(releases=1)),
        (Ruled(FRONT), Counters(releases=1)),
    ],
)
def test_each_outcome_adds_to_its_own_counter_only(outcome: Outcome, expected: Counters) -> None:
    assert expected == tally(outcome)


# Properties.

chances = st.floats(0, 1, exclude_max=True)
counts = st.integers(0, 10**9)
counters = st.builds(Counters, **dict.fromkeys(Counters.__struct_fields__, counts))


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    least, most = sorted(draw(st.lists(st.floats(0, 86_400), min_size=2, max_size=2)))
    factor, jitter = draw(st.floats(1, 1000)), draw(st.floats(0, 1))
    return Backoff(min=least, max=most, factor=factor, jitter=jitter)


terminals = st.sampled_from([Delete(), Archive()])
repeats = st.builds(
    Repeat, st.none() | st.integers(0, 10**6), terminals, backoff=st.none() | backoffs()
)
strategies = terminals | repeats
reschedules = st.builds(Reschedule, st.floats(0, 10**6)) | st.just(FRONT)
rules_ = st.builds(
    Rules,
    on_success=terminals,
    on_error=strategies,
    on_timeout=strategies,
    on_stall=strategies,
    on_interrupt=terminals | reschedules,
    backoff=backoffs(),
)
outcomes = st.one_of(
    st.builds(Succeeded, st.none() | st.text()),
    st.builds(
        Failed,
        st.just(BOOM),
        permanent=st.booleans(),
        retry=st.booleans(),
        after=st.none() | st.floats(0, 10**6),
    ),
    st.builds(TimedOut, st.floats(0, 10**6)),
    st.builds(Stalled),
    st.builds(Interrupted),
    st.builds(Malformed, st.text()),
    st.builds(Unknown, st.text()),
    st.builds(Ruled, terminals | reschedules),
)


@given(rules_, outcomes, counters, chances)
def test_every_outcome_under_every_policy_leads_to_a_disposition_and_always_the_same(
    rules: Rules, outcome: Outcome, counters: Counters, chance: float
) -> None:
    decided = decide(rules, outcome, counters, chance)

    assert isinstance(decided, Delete | Archive | Reschedule)
    assert decided == decide(rules, outcome, counters, chance)


@given(rules_, outcomes, counters, counters, chances)
def test_each_outcome_looks_at_its_own_counter_only(
    rules: Rules, outcome: Outcome, counters: Counters, others: Counters, chance: float
) -> None:
    match outcome:
        case Failed():
            mixed = _with(others, errors=counters.errors)
        case TimedOut():
            mixed = _with(others, timeouts=counters.timeouts)
        case Stalled():
            mixed = _with(others, stalls=counters.stalls)
        case Unknown():
            mixed = _with(others, unknowns=counters.unknowns)
        case Succeeded() | Interrupted() | Malformed() | Ruled():
            mixed = others

    assert decide(rules, outcome, counters, chance) == decide(rules, outcome, mixed, chance)


@given(rules_, rules_, outcomes, counters, chances)
def test_each_outcome_looks_at_its_own_slot_only(
    rules: Rules, others: Rules, outcome: Outcome, counters: Counters, chance: float
) -> None:
    slots: dict[type, str] = {
        Succeeded: "on_success",
        Failed: "on_error",
        TimedOut: "on_timeout",
        Stalled: "on_stall",
        Interrupted: "on_interrupt",
    }
    kept = {"backoff", slots.get(type(outcome), "backoff")}
    mixed = Rules(
        **{f: getattr(rules if f in kept else others, f) for f in Rules.__struct_fields__}
    )

    assert decide(rules, outcome, counters, chance) == decide(mixed, outcome, counters, chance)


@given(st.integers(0, 50), terminals, st.sampled_from([Failed(BOOM), TimedOut(1.0), Stalled()]))
def test_n_repeats_are_n_plus_one_runs(
    times: int, last: Delete | Archive, outcome: Outcome
) -> None:
    strategy = Repeat(times, last)
    rules = Rules(on_error=strategy, on_timeout=strategy, on_stall=strategy)
    counters, runs = ZERO, 0
    while True:
        runs, counters = runs + 1, counters + tally(outcome)
        decided = decide(rules, outcome, counters, ALWAYS)
        if not isinstance(decided, Reschedule):
            break

    assert last == decided
    assert times + 1 == runs


@given(backoffs(), st.integers(1, 10**6), chances)
def test_a_backoff_stays_between_its_bounds_less_its_jitter(
    backoff: Backoff, repeat: int, chance: float
) -> None:
    delay = backoff.delay(repeat, chance)

    assert delay <= backoff.max
    assert delay >= backoff.min * (1 - backoff.jitter)


@given(backoffs(), st.integers(1, 10**6), chances)
def test_only_the_jitters_share_of_a_delay_is_left_to_chance(
    backoff: Backoff, repeat: int, chance: float
) -> None:
    whole = backoff.delay(repeat, 0.0)

    assert whole >= backoff.delay(repeat, chance) >= whole * (1 - backoff.jitter)


@given(backoffs(), st.integers(1, 1000), chances)
def test_a_later_repeat_never_waits_shorter(backoff: Backoff, repeat: int, chance: float) -> None:
    assert backoff.delay(repeat, chance) <= backoff.delay(repeat + 1, chance)


@pytest.mark.parametrize(
    ("repeat", "expected"), [(1, 2.0), (2, 4.0), (3, 8.0), (8, 256.0), (9, 300.0), (10_000, 300.0)]
)
def test_the_default_backoff_doubles_from_two_seconds_to_five_minutes(
    repeat: int, expected: float
) -> None:
    assert expected == Backoff().delay(repeat, 0.0)


def test_full_jitter_may_wait_for_almost_nothing() -> None:
    assert 0.0 < Backoff(jitter=1.0).delay(5, 1 - 1e-12) < 1e-9


def _with(counters: Counters, **changes: int) -> Counters:
    fields = {name: getattr(counters, name) for name in Counters.__struct_fields__}
    return Counters(**{**fields, **changes})


# Completeness, purity, and the page of documentation.


def test_the_tables_here_know_every_outcome_there_is() -> None:
    tested = {
        Succeeded,
        Failed,
        TimedOut,
        Stalled,
        Interrupted,
        Malformed,
        Unknown,
        Ruled,
    }

    assert tested == set(get_args(Outcome))


def test_decide_imports_nothing_that_could_make_it_impure() -> None:
    module = inspect.getmodule(decide)
    assert module is not None
    tree = ast.parse(inspect.getsource(module))

    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]

    assert [] == plain
    assert imported == {
        "__future__",
        "typing",
        "bee_core.disposition",
        "bee_core.message",
        "bee_core.outcome",
        "bee_core.strategy",
    }


def test_decide_is_part_of_the_public_api() -> None:
    assert public_decide is decide
    assert isinstance(UNKNOWN, Repeat)


def test_the_page_of_decisions_says_what_decide_does() -> None:
    written = PAGE.read_text(encoding="utf-8")

    assert page(written) == written, (
        f"{PAGE} no longer says what decide does. To print the table again: "
        "python -m tests.core.decision_table"
    )
