"""The suite has teeth: it notices every mutant, and lets the genuine broker pass.

`pytest tests/conformance/test_teeth.py -rP` shows which test noticed which mutant.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from bee_core.testing.conformance import BrokerConformance
from bee_memory import MemoryBroker

from .mutants import MUTANTS
from .runner import failures


@pytest.fixture(autouse=True)
def _no_long_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI is set, pytest writes the whole difference of two large bodies, for minutes."""
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.parametrize(
    ("mutant", "likely"), MUTANTS.items(), ids=[kind.__name__ for kind in MUTANTS]
)
def test_the_suite_notices(mutant: type[MemoryBroker], likely: Sequence[str]) -> None:
    caught = next(failures(mutant, likely), None)

    assert caught is not None, f"no test notices {mutant.__name__}: {mutant.__doc__}"
    name, error = caught
    sys.stdout.write(f"{mutant.__name__} breaks {name}: {error!r:.100}\n")


def test_the_genuine_broker_passes() -> None:
    assert not list(failures(MemoryBroker))


def test_no_test_of_the_suite_hides_another() -> None:
    parts = [part for part in BrokerConformance.__mro__ if part is not BrokerConformance]
    names = Counter(name for part in parts for name in vars(part) if name.startswith("test_"))

    assert [] == [name for name, times in names.items() if times > 1]


def test_every_mutant_says_which_rule_it_breaks() -> None:
    assert all(vars(mutant).get("__doc__") for mutant in MUTANTS)
