"""The page about failures names a test for each, and they are there."""

from __future__ import annotations

import ast
import re

import pytest

from .markdown import ROOT, anchors, links, sections

PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
PROOFS = re.findall(r"^- `([\w/.]+)::(\w+)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("file", "name"), PROOFS, ids=[name for _, name in PROOFS])
def test_what_proves_a_promise_is_a_test(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)

    assert name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_failure_has_its_proof_and_is_in_the_table() -> None:
    failures = set(sections(PAGE)) - {"What holds in which failure", "All stores alike"}
    listed = {link.removeprefix("#") for link in links(PAGE) if link.startswith("#")}

    for failure in failures:
        assert "::test_" in sections(PAGE)[failure], failure
    assert anchors(PAGE) - listed == {"what-holds-in-which-failure", "all-stores-alike"}
