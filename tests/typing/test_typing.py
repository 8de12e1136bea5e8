"""What users may write passes `mypy --strict`; what they may not is found, line by line."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPTED = HERE / "accepted.py"
REJECTED = HERE / "rejected.py"

MARK = re.compile(r"# error: (?P<codes>[a-z-]+(?:, [a-z-]+)*)$")
REPORT = re.compile(r"(?P<file>.+?):(?P<line>\d+): error: (?P<text>.*?)\s+\[(?P<code>[a-z-]+)\]$")

Errors = dict[int, list[str]]


def marked() -> Errors:
    """The codes that are expected, by line."""
    lines = enumerate(REJECTED.read_text(encoding="utf-8").splitlines(), start=1)
    return {
        number: found["codes"].split(", ") for number, line in lines if (found := MARK.search(line))
    }


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Errors]:
    """What mypy says about both files, as a user would run it; without any configuration."""
    cache = tmp_path_factory.mktemp("mypy")
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
        *("--no-error-summary", "--no-pretty", "--hide-error-context", f"--cache-dir={cache}"),
        *(str(ACCEPTED.relative_to(ROOT)), str(REJECTED.relative_to(ROOT))),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "" == answer.stderr
    assert answer.returncode in (0, 1), answer.stdout

    found: dict[str, Errors] = {ACCEPTED.name: {}, REJECTED.name: {}}
    for line in answer.stdout.splitlines():
        if report := REPORT.match(line):
            name, number = Path(report["file"]).name, int(report["line"])
            code = (
                report["code"] if name == REJECTED.name else f"{report['text']} [{report['code']}]"
            )
            found[name].setdefault(number, []).append(code)
        else:
            assert ": note: " in line, line
    return found


def test_what_users_may_write_passes_the_type_checker(reported: dict[str, Errors]) -> None:
    assert {} == reported[ACCEPTED.name]


@pytest.mark.parametrize(("line", "codes"), marked().items())
def test_each_wrong_use_is_found(line: int, codes: list[str], reported: dict[str, Errors]) -> None:
    source = REJECTED.read_text(encoding="utf-8").splitlines()[line - 1]

    assert codes == reported[REJECTED.name].get(line), source.strip()


def test_nothing_else_is_found(reported: dict[str, Errors]) -> None:
    unexpected = {
        line: codes for line, codes in reported[REJECTED.name].items() if line not in marked()
    }

    assert {} == unexpected
    assert len(marked()) >= 14


def test_what_users_may_write_also_runs() -> None:
    importlib.import_module("tests.typing.accepted")
