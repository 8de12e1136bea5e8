"""The exit codes are one list, and people can read it in two places."""

from __future__ import annotations

from bee_core.service.exits import Exit
from tests.cli.conftest import Bee
from tests.docs.markdown import ROOT, sections, tables

RUNNING = sections(ROOT / "docs" / "production" / "running.md")


def test_the_page_has_every_exit_code() -> None:
    codes = [row[0] for row in tables(RUNNING["Exit codes"])]

    assert ["code", *(str(int(code)) for code in Exit)] == codes


def test_help_has_every_exit_code(bee_command: Bee) -> None:
    text = bee_command("worker", "--help").output
    listed = text.partition("Exit codes:\n")[2].partition("\n\n")[0]

    assert [str(int(code)) for code in Exit] == [line.split()[0] for line in listed.splitlines()]
