"""Help needs nothing, ends with examples, and the reference says what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from bee_core.cli import main
from tests.docs.markdown import ROOT, sections

from .conftest import Bee

REFERENCE = ROOT / "docs" / "reference" / "cli.md"


def commands(group: click.Group, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_ends_with_examples(bee: Bee, words: tuple[str, ...]) -> None:
    answer = bee(*words, "--help")

    last = answer.output.rstrip().rpartition("\n\n")[2].splitlines()
    assert 0 == answer.exit_code
    assert "Examples:" == last[0].strip()
    assert all(line.strip().startswith("bee ") for line in last[1:])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_says_what_the_exit_codes_mean(bee: Bee, words: tuple[str, ...]) -> None:
    assert "Exit codes:" in bee(*words, "--help").output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_into_a_terminal(bee: Bee, words: tuple[str, ...]) -> None:
    assert max(map(len, bee(*words, "--help").output.splitlines())) <= 80


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_loads_no_driver_and_asks_for_no_settings(words: tuple[str, ...]) -> None:
    program = """
import sys, json
for name in ("psycopg", "psycopg_pool", "redis"):
    sys.modules[name] = None
from bee_core.cli import main
try:
    main([*sys.argv[1:], "--help"])
except SystemExit as ended:
    sys.stderr.write(json.dumps([ended.code, "bee_pg" in sys.modules]))
"""
    answer = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        env=os.environ | {"BEE_URL": "nonsense"},
    )

    assert [0, False] == json.loads(answer.stderr)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_reference_has_every_command_with_its_options(words: tuple[str, ...]) -> None:
    section = sections(REFERENCE)[f"bee {' '.join(words)}"]
    options = [
        option.opts[-1]
        for option in COMMANDS[words].params
        if isinstance(option, click.Option) and option.name != "help" and not option.hidden
    ]

    assert [] == [option for option in options if f"`{option}" not in section]


def test_the_reference_has_no_other_command() -> None:
    headings = {heading for heading in sections(REFERENCE) if heading.startswith("bee ")}

    assert {f"bee {' '.join(words)}" for words in COMMANDS} == headings
