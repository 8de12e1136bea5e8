"""The glossary has every verb, each word once, and in the order of the alphabet."""

from __future__ import annotations

import inspect
import re

import bee_core as bee

from .markdown import ROOT, sections, tables

TEXT = sections(ROOT / "docs" / "glossary.md")["bee's words"]
WORDS = [row[0].strip("*") for row in tables(TEXT) if row[0].startswith("**")]
OBVIOUS = {"get", "queues", "workers", "results", "reports", "clone", "aclose", "wait"}
"""Their names say all; those in the plural are listed in the singular."""


def test_words_are_in_order_and_none_is_there_twice() -> None:
    assert sorted(set(WORDS), key=str.lower) == WORDS


def test_every_verb_of_a_store_is_in_it() -> None:
    verbs = {
        name
        for owner in (bee.Broker, bee.Inspector)
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }

    assert set() == verbs - set(WORDS) - OBVIOUS


def test_every_state_is_in_it() -> None:
    meant = " ".join(WORDS) + " archived"

    assert [] == [state.value for state in bee.State if state.value not in meant]


def test_what_is_called_otherwise_elsewhere_is_a_word_of_bees_or_of_the_code() -> None:
    other = sections(ROOT / "docs" / "glossary.md")["If you come from another queue"]
    said = {word for row in tables(other) for word in re.findall(r"(?<!\*)\*([a-z ]+)\*", row[2])}
    forms = {"stalled", "higher"}

    assert set() == said - set(WORDS) - forms
