"""The page about settings has every setting, with the names and defaults that it has."""

from __future__ import annotations

import click

from bee_core.cli.common.configured import Configured
from bee_core.cli.worker import worker
from bee_core.config import DEFAULT_URL, WorkerSettings, known_variables

from .markdown import ROOT, sections, tables

ROWS = list(tables(sections(ROOT / "docs" / "reference" / "configuration.md")["Every setting"]))[1:]
OPTIONS = {option.name: option for option in worker.params if isinstance(option, Configured)}


def test_every_setting_is_on_the_page_and_no_other() -> None:
    known = ["url", "", *(f"worker.{name}" for name in WorkerSettings.__struct_fields__)]

    assert known == [row[0].strip("`") for row in ROWS]


def test_every_variable_is_on_the_page_and_no_other() -> None:
    printed = [name.strip("` ") for row in ROWS for name in row[1].split(",")]

    assert sorted(known_variables()) == sorted(printed)


def test_the_variables_and_options_are_those_of_the_command() -> None:
    for key, variables, option, default in ROWS[2:]:
        found = OPTIONS[key.strip("`").removeprefix("worker.")]
        assert found.variables == [name.strip("` ") for name in variables.split(",")]
        assert f"`{found.opts[0]}`" == option
        if default.startswith("`"):
            assert default.strip("`") == str(found.default).lower()
        else:
            assert not isinstance(found.default, str | bool | int), key


def test_the_default_of_the_url_is_the_one_on_the_page() -> None:
    assert f"`{DEFAULT_URL}`" == ROWS[0][3]


def test_flags_can_be_taken_back_as_the_page_says() -> None:
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    flags = [
        option for option in OPTIONS.values() if isinstance(option.type, click.types.BoolParamType)
    ]

    assert all(f"`{flag.secondary_opts[0]}`" in text for flag in flags)
    assert 2 == len(flags)
