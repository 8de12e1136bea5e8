"""The examples are run as programs of their own, and print what they are there to show."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import PgServer

from .markdown import ROOT, blocks
from .test_services import APPS
from .test_workers import WITH_WORKERS

EXAMPLES = ROOT / "examples"

PRINTS = {
    "hello": """\
hello Ada
""",
    "fan_out": """\
attempt 1 fails after asking for 4 jobs: none is sent
attempt 2 succeeds: 4 jobs are sent
report waits for 3
ada: 5 words
grace: 10 words
alan: 8 words
all: 23 words
""",
    "star_map": """\
squares: 10 jobs are sent, from squares/01 on
[1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0, 64.0, 81.0, 100.0]
parts: 3 jobs are sent, from parts/1 on
parts: parts/2 failed: ZeroDivisionError: float division by zero
[0.5, None, 0.75]
""",
    "unique_reports": """\
first order: created
second order: updated
third order: updated
  building for ada: third order
order while it runs: blocked
last order while it runs: blocked
  built for ada: third order
  building for ada: last order while it runs
  built for ada: last order while it runs
""",
    "failure_desk": """\
charged 500 to good, attempt 1
desk: order-3 failed after 1 run(s): Charge(card='expired', pence=900)
desk:   CardRefused: this card has expired
charged 700 to flaky, attempt 2
desk: parcel-1 timed_out after 2 run(s): Ship(parcel='books')
in the archive: {'failed': 1, 'timed_out': 1}
""",
    "embedded": """\
created hello
kept hello
created good night
two jobs run while the service shuts down
they were let to end: ['GOOD NIGHT', 'HELLO']
nothing is left: True
""",
    "orders": """\
order 1: paid
order 2: refused, and rolled back
confirmed order 1
""",
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_ends_by_itself_and_prints_what_it_did(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "BEE_URL"}
    if "DATABASE_URL" in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"):
        server: PgServer = request.getfixturevalue("pg")
        environment["DATABASE_URL"] = server.database()
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]

    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=tmp_path,
        env=environment,
        check=False,
    )

    assert ("", PRINTS[name], 0) == (run.stderr, run.stdout, run.returncode)


def test_every_example_is_run() -> None:
    assert {*PRINTS, *APPS, *WITH_WORKERS} == {path.stem for path in EXAMPLES.glob("*.py")}


def test_hello_is_the_program_of_the_readme() -> None:
    first = next(b for b in blocks(ROOT / "README.md") if b.language == "python")
    hello = ast.parse((EXAMPLES / "hello.py").read_text(encoding="utf-8"))
    del hello.body[0]  # its docstring

    assert ast.unparse(ast.parse(first.text)) == ast.unparse(hello)
