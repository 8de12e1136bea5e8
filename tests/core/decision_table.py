"""The truth table of `decide`, as Markdown. `python -m tests.core.decision_table` writes it.

Every cell is what `decide` answers, nothing is worked out here; `test_decide.py` holds the
same decisions written out by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, assert_never

import msgspec

from bee_core.decide import decide
from bee_core.disposition import Archive, Delete, Disposition, Reschedule
from bee_core.message import Counters
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
from bee_core.strategy import Backoff, Policy, Repeat, resolve

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "decisions.md"
BEGIN = "<!-- table -->"
END = "<!-- /table -->"

Strategy: TypeAlias = Delete | Archive | Repeat | Reschedule

_ERROR = RuntimeError("boom")
_COLUMNS: list[tuple[str, Strategy]] = [
    ("`Delete()`", Delete()),
    ("`Archive()`", Archive()),
    ("`Repeat(2)`", Repeat(2)),
    ("`Repeat(2, Delete())`", Repeat(2, Delete())),
    ("`Repeat(None)`", Repeat(None)),
    ("`Reschedule(front=True)`", Reschedule(front=True)),
]
_DECIDED_BY_POLICY: list[tuple[str, str, Outcome]] = [
    ("`Succeeded`", "on_success", Succeeded()),
    ("`Failed`", "on_error", Failed(_ERROR)),
    ("`Failed`, by `Retry()`", "on_error", Failed(_ERROR, retry=True)),
    ("`Failed`, by `Retry(after=7)`", "on_error", Failed(_ERROR, retry=True, after=7.0)),
    ("`Failed`, by `PermanentError`", "on_error", Failed(_ERROR, permanent=True)),
    ("`TimedOut`", "on_timeout", TimedOut(60.0)),
    ("`Stalled`", "on_stall", Stalled()),
    ("`Interrupted`", "on_interrupt", Interrupted()),
]
_DECIDED_ANYHOW: list[tuple[str, Outcome]] = [
    ("`Malformed`", Malformed("not JSON")),
    ("`Unknown`", Unknown("no such kind")),
    ("`Ruled(Delete())`", Ruled(Delete())),
    ("`Ruled(Archive())`", Ruled(Archive())),
    ("`Ruled(Reschedule(7))`, also by `Snooze(7)`", Ruled(Reschedule(7.0))),
]


def table() -> str:
    """Both tables: what the policy decides, and what is decided whatever the policy says."""
    return f"{_policy_table()}\n\nThe rest is the same under every policy:\n\n{_other_table()}"


def page(text: str) -> str:
    """The page with its table replaced by the present one."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must hold {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"


def _policy_table() -> str:
    rows = [["outcome", "counts as", "slot", *(title for title, _ in _COLUMNS)]]
    rows.append(["---"] * len(rows[0]))
    for title, slot, outcome in _DECIDED_BY_POLICY:
        cells = [_cell(slot, strategy, outcome) for _, strategy in _COLUMNS]
        rows.append([title, _counter(outcome), f"`{slot}`", *cells])
    return _markdown(rows)


def _other_table() -> str:
    rows = [["outcome", "counts as", "what happens"], ["---"] * 3]
    for title, outcome in _DECIDED_ANYHOW:
        rows.append([title, _counter(outcome), _at_counts(Policy(), outcome, 1, 15, 16)])
    return _markdown(rows)


def _cell(slot: str, strategy: Strategy, outcome: Outcome) -> str:
    """What happens at the first time, at the limit and above; n/a if the slot does not take it."""
    options: dict[str, object] = {slot: strategy}
    try:
        policy = Policy(backoff=Backoff(jitter=0.0), **options)  # type: ignore[arg-type]
    except ValueError:
        return "n/a"
    if isinstance(strategy, Repeat) and strategy.times is None:
        return _at_counts(policy, outcome, 1, 2, 1000)
    return _at_counts(policy, outcome, 1, 2, 3)


def _at_counts(policy: Policy, outcome: Outcome, *counts: int) -> str:
    """What is decided when the outcome's counter stands at each of these; once if all agree."""
    decided = [decide(resolve(policy), outcome, _all_at(n), 0.0) for n in counts]
    if len(set(decided)) == 1:
        return _words(decided[0])
    return "<br>".join(f"{n}: {_words(d)}" for n, d in zip(counts, decided, strict=True))


def _all_at(count: int) -> Counters:
    return Counters(**dict.fromkeys(Counters.__struct_fields__, count))


def _words(disposition: Disposition) -> str:
    match disposition:
        case Delete():
            return "delete"
        case Archive():
            return "archive"
        case Reschedule(front=True):
            return "again, at its place"
        case Reschedule(delay=delay):
            return f"again in {delay:g} s"
        case _:
            assert_never(disposition)


def _counter(outcome: Outcome) -> str:
    added = msgspec.structs.asdict(tally(outcome))
    return ", ".join(name for name, number in added.items() if number) or "nothing"


def _markdown(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
