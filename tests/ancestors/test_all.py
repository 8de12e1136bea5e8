"""Every fault of the list is tested, or it is said why it cannot be."""

from __future__ import annotations

import re
from pathlib import Path

from tests.ancestors import CANNOT_BE, FAULTS

KNOWN = {f"{name}_B{number:02}" for name, most in FAULTS.items() for number in range(1, most + 1)}


def found_in_the_tests() -> set[str]:
    found: set[str] = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        found |= set(re.findall(r"^(?:async )?def test_([A-Z]{2}_B\d\d)_", file.read_text(), re.M))
    return found


def test_every_fault_is_tested_or_explained() -> None:
    assert set() == KNOWN - found_in_the_tests() - CANNOT_BE.keys()


def test_nothing_is_named_after_a_fault_that_is_not_known_or_cannot_be() -> None:
    assert set() == found_in_the_tests() - KNOWN
    assert set() == found_in_the_tests() & CANNOT_BE.keys()
    assert CANNOT_BE.keys() <= KNOWN
