"""What is in the wheel: everything that is needed, and nothing else."""

from __future__ import annotations

import email
import re
import zipfile
from pathlib import Path

import pytest

from tests.acceptance.wheel import ROOT

PACKAGES = ("bee_core", "bee_memory", "bee_redis", "bee_pg")


@pytest.fixture
def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_every_file_of_the_packages_is_in_the_wheel(names: set[str]) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert set() == files - names


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_has_types(package: str, names: set[str]) -> None:
    assert f"{package}/py.typed" in names


@pytest.mark.parametrize(
    "pattern",
    [
        "bee_redis/lua/.*[.]lua",
        "bee_pg/sql/.*[.]sql",
        "bee_pg/statements/.*[.]sql",
        "bee_pg/migrations/.*[.]sql",
    ],
)
def test_scripts_and_statements_are_in_the_wheel(pattern: str, names: set[str]) -> None:
    assert any(re.fullmatch(pattern, name) for name in names)


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    tops = {re.sub(r"-.*", "", name.partition("/")[0]) for name in names}
    endings = {Path(name).suffix for name in names if name.startswith("bee_")}

    assert {*PACKAGES, "bee_jobs"} == tops
    assert {".py", ".typed", ".lua", ".sql"} >= endings - {"", ".txt"}


def test_the_metadata_are_what_an_index_needs(metadata: email.message.Message) -> None:
    assert "bee-jobs" == metadata["Name"]
    assert "MIT" == metadata["License-Expression"]
    assert ">=3.11" == metadata["Requires-Python"]
    assert "text/markdown" == metadata["Description-Content-Type"]
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert len(metadata["Summary"]) <= 120


def test_a_plain_install_needs_no_driver_of_a_store(metadata: email.message.Message) -> None:
    needed = [
        re.split(r"[<>=!~ ;\[]", line)[0]
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line
    ]

    assert {"msgspec", "typing-extensions", "click", "cronsim"} == set(needed)
