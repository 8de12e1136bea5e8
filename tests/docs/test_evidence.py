"""The page of evidence is what the files of the last full runs say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.evidence import Proof, read, record
from tests.evidence.page import KINDS, PAGE, page
from tests.evidence.proof import DIRECTORY

PROOFS = read()


def proof(name: str, **facts: object) -> Proof:
    usual = Proof(
        name=name, date="2026-01-02 03:04", versions={}, command="try", figures={}, result="held"
    )
    return msgspec.structs.replace(usual, **facts)


def test_the_page_is_what_is_made_of_the_files() -> None:
    assert page(PROOFS) == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted(DIRECTORY.glob("*.json")), ids=lambda file: file.stem)
def test_a_file_is_named_after_its_proof_which_has_a_section(file: Path) -> None:
    found = msgspec.json.decode(file.read_bytes(), type=Proof)

    assert file.stem == found.name
    assert found.kind in KINDS


@pytest.mark.parametrize("found", PROOFS, ids=lambda found: str(found.name))
def test_what_is_published_has_held(found: Proof) -> None:
    assert "held" == found.result


def test_proofs_of_a_kind_stand_side_by_side_in_one_table() -> None:
    shown = page(
        [
            proof("model-pg", figures={"steps": 100_000, "seconds": 12.34}),
            proof("model-memory", figures={"steps": 5}, result="3 steps differ"),
        ]
    )

    assert "| | memory | PostgreSQL |\n| --- | ---: | ---: |\n" in shown
    assert "| steps | 5 | 100,000 |\n| seconds |  | 12.3 |\n" in shown
    assert "| **result** | 3 steps differ | **held** |" in shown


def test_a_kind_without_a_run_says_so() -> None:
    assert len(KINDS) == page([]).count("No run at full length is recorded yet.")


def test_what_a_run_records_is_read_again(tmp_path: Path) -> None:
    record("soak-pg", command="soak", figures={"minutes": 60}, directory=tmp_path)
    record("chaos-pg", command="break", figures={}, faults=["1 lost"], directory=tmp_path)

    chaos, soak = read(tmp_path)

    assert ("chaos", "pg", "1 lost") == (chaos.kind, chaos.store, chaos.result)
    assert ({"minutes": 60}, "held") == (soak.figures, soak.result)
