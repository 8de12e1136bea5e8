"""What the reference says is what the code says."""

from __future__ import annotations

import importlib.util
import inspect
import typing
from collections.abc import Iterable

import pytest

import bee_core as bee
from bee_core import checks, codec, message, queue, schedule, stored
from bee_core.decide import UNKNOWN
from bee_core.handlers import FAILURE_RULES
from bee_core.text import DETAIL

from .markdown import ROOT, sections, tables

REFERENCE = ROOT / "docs" / "reference"
POLICY = sections(REFERENCE / "policy.md")
EVENTS = sections(REFERENCE / "events.md")
KINDS = typing.get_args(bee.Event)


def value(cell: str) -> object:
    """The value that stands between backticks in a cell."""
    names = {name: getattr(bee, name) for name in bee.__all__}
    return eval(cell.strip("`"), names)


def column(text: str, number: int) -> dict[str, str]:
    """One column of the table in a section, by what stands in its first."""
    return {row[0].strip("`"): row[number] for row in tables(text)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_is_on_the_page_with_its_fields(kind: type) -> None:
    fields = [name for name in column(EVENTS[kind.__name__], 0) if name != "field"]

    assert list(kind.__struct_fields__) == fields  # type: ignore[attr-defined]


def test_no_other_event_is_on_the_page() -> None:
    prose = {"Events", "What is logged"}

    assert {kind.__name__ for kind in KINDS} == set(EVENTS) - prose


def test_every_event_is_logged_at_some_level() -> None:
    assert all(f"`{kind.__name__}`" in EVENTS["What is logged"] for kind in KINDS)


def test_the_defaults_of_a_policy_are_the_rules() -> None:
    rules = bee.Rules()
    printed = column(POLICY["The slots"], 1)
    del printed["slot"]

    assert {name: getattr(rules, name) for name in rules.__struct_fields__} == {
        name: value(cell) for name, cell in printed.items()
    }


@pytest.mark.parametrize(
    ("slot", "kinds"),
    [(slot, cell) for slot, cell in column(POLICY["The slots"], 2).items() if "on_" in slot],
)
def test_a_slot_takes_what_the_page_says_and_nothing_else(slot: str, kinds: str) -> None:
    every = [bee.Delete(), bee.Archive(), bee.Repeat(1), bee.Reschedule()]
    allowed = [value(kind) for kind in kinds.split(", ")]

    for strategy in every:
        if type(strategy) in allowed:
            bee.Policy(**{slot: strategy})  # type: ignore[arg-type]
        else:
            with pytest.raises(bee.InvalidOption):
                bee.Policy(**{slot: strategy})  # type: ignore[arg-type]


def test_the_defaults_of_a_backoff_are_its_own() -> None:
    backoff = bee.Backoff()
    printed = column(POLICY["Backoff"], 1)
    del printed["field"]

    assert {name: getattr(backoff, name) for name in backoff.__struct_fields__} == {
        name: value(cell) for name, cell in printed.items()
    }


def test_the_defaults_of_a_repeat_are_its_own() -> None:
    printed = column(POLICY["Repeat"], 1)

    assert bee.Repeat(0).otherwise == value(printed["otherwise"])
    assert bee.Repeat(0).backoff == value(printed["backoff"])


def test_the_fixed_rules_are_as_printed() -> None:
    unknown, failure = (row[1:4] for row in list(tables(POLICY["Fixed rules"]))[1:])

    assert UNKNOWN.backoff is not None
    assert [UNKNOWN.times, UNKNOWN.backoff.min, UNKNOWN.backoff.max] == values(unknown)
    for repeat in (FAILURE_RULES.on_error, FAILURE_RULES.on_timeout, FAILURE_RULES.on_stall):
        assert isinstance(repeat, bee.Repeat)
        backoff = FAILURE_RULES.backoff
        assert [repeat.times, backoff.min, backoff.max] == values(failure)


@pytest.mark.parametrize("owner", [bee.Worker, bee.Hive])
def test_the_defaults_of_a_worker_are_its_own(owner: type) -> None:
    parameters = inspect.signature(owner).parameters
    printed = column(POLICY["The worker"], 1)
    del printed["option"]

    assert {name: parameters[name].default for name in printed} == {
        name: value(cell) for name, cell in printed.items()
    }


def test_the_options_about_capacity_are_those_of_a_queue() -> None:
    parameters = inspect.signature(bee.Hive.queue).parameters
    printed = column(POLICY["The capacity of a hive"], 1)
    del printed["option"]

    assert {"precedence", "share", "size"} == printed.keys()
    assert {name: parameters[name].default for name in printed} == {
        name: value(cell) for name, cell in printed.items()
    }
    assert inspect.signature(bee.Hive).parameters["capacity"].default is None


def test_the_defaults_of_auto_are_its_own() -> None:
    auto = bee.Auto()
    printed = column(POLICY["Auto"], 1)
    del printed["field"]

    assert {name: getattr(auto, name) for name in auto.__struct_fields__} == {
        name: value(cell) for name, cell in printed.items()
    }


def test_the_limits_are_as_printed() -> None:
    numbers = [row[1].split("`")[1] for row in tables(POLICY["Limits"]) if "`" in row[1]]
    longest = "a" * checks._LONGEST_ID
    name = "a" * 47
    checks.check_id(longest)
    checks.check_queue(name)
    for check, text in ((checks.check_id, longest), (checks.check_queue, name)):
        with pytest.raises(bee.InvalidName):
            check(text + "a")

    assert numbers == [
        str(limit)
        for limit in (
            queue.MAX_BYTES,
            checks.MOST_HEADER_BYTES,
            DETAIL,
            len(longest),
            schedule.LONGEST_NAME,
            checks.LONGEST_PROGRESS,
            stored.HISTORY,
            checks.MOST_AWAITED,
            len(name),
            codec.DEEPEST,
        )
    ]
    assert "-9 to 9" in POLICY["Limits"]
    assert (message.PRIORITIES[0], message.PRIORITIES[-1]) == (-9, 9)


def values(cells: Iterable[str]) -> list[object]:
    return [value(cell) for cell in cells]


def test_the_python_reference_is_up_to_date() -> None:
    path = ROOT / "docs" / "make_reference.py"
    specification = importlib.util.spec_from_file_location("make_reference", path)
    assert specification is not None
    assert specification.loader is not None
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)

    written = (REFERENCE / "api.md").read_text(encoding="utf-8")
    assert script.reference() == written, "run: python docs/make_reference.py"
