"""docs/explanation/evidence.md, from a template and the files in docs/evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.evidence.proof import DIRECTORY, HELD, Figure, Proof

PAGE = DIRECTORY.parent / "explanation" / "evidence.md"
STORES = {"memory": "memory", "valkey": "Valkey", "redis": "Redis", "pg": "PostgreSQL"}


TEMPLATE = Path(__file__).with_name("template.md").read_text(encoding="utf-8")
"""The page, with a mark where the figures of each kind of proof belong."""
_MARK = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
KINDS = tuple(_MARK.findall(TEMPLATE))


def page(proofs: Sequence[Proof]) -> str:
    """The whole page."""

    def found(mark: re.Match[str]) -> str:
        own = [proof for proof in proofs if proof.kind == mark[1]]
        return "\n".join(_found(sorted(own, key=_order)))

    return _MARK.sub(found, TEMPLATE)


def _order(proof: Proof) -> tuple[int, str]:
    known = list(STORES)
    return known.index(proof.store) if proof.store in known else len(known), proof.store


def _found(proofs: Sequence[Proof]) -> Iterator[str]:
    if not proofs:
        yield "No run at full length is recorded yet."
        return
    rows = dict.fromkeys(name for proof in proofs for name in proof.figures)
    titles = [STORES.get(proof.store, proof.store) or "found" for proof in proofs]
    yield f"| | {' | '.join(titles)} |"
    yield f"| --- |{' ---: |' * len(proofs)}"
    for name in rows:
        yield f"| {name} | {' | '.join(_shown(proof.figures.get(name)) for proof in proofs)} |"
    yield f"| **result** | {' | '.join(_result(proof) for proof in proofs)} |"
    yield ""
    for proof in proofs:
        versions = ", ".join(f"{what} {version}" for what, version in proof.versions.items())
        yield f"- `{proof.command}`, {proof.date} UTC; {versions}"


def _result(proof: Proof) -> str:
    return f"**{proof.result}**" if proof.result == HELD else proof.result


def _shown(figure: Figure | None) -> str:
    match figure:
        case None:
            return ""
        case float():
            return f"{figure:,.1f}" if abs(figure) >= 10 else f"{figure:.3g}"
        case int():
            return f"{figure:,}"
        case str():
            return figure
