"""`bee config`: what is set, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from bee_core.cli.common.asking import json_option, print_json, url_option
from bee_core.cli.common.configured import Configured, source_of
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.worker import worker
from bee_core.config import read_settings, unknown_variables
from bee_core.url import redact


class Setting(msgspec.Struct, frozen=True):
    """One setting, as it may be shown."""

    name: str
    value: Any
    source: str


@click.command(
    short_help="Say what is set, and where.",
    epilog=examples(
        "bee config",
        "bee config --json | jq -r 'select(.source != \"default\") | .name'",
        "bee --config production.toml config",
    ),
)
@url_option
@json_option
def config(url: str | None, as_json: bool) -> None:
    """Say what is set, and where: by an argument, a variable, a file, or not at all.

    Nothing is asked of a broker, and no password is shown. What may be a mistake, such as a
    variable BEE_... that bee does not know, is said on standard error.

    \b
    Exit codes:
      0  the settings can be used
      2  wrong use: an unknown setting, a value that cannot be used
    """
    try:
        with told_plainly():
            settings = read_settings(url)
        found = [Setting("url", redact(settings.url), settings.url_source), *_of_worker()]
    except click.UsageError as error:  # without the usage of another command
        raise WrongUse(error.format_message()) from error
    for remark in (*settings.remarks, *unknown_variables()):
        click.echo(f"Warning: {remark}", err=True)
    if as_json:
        for setting in found:
            print_json(setting)
    else:
        _print_table(found)


def _of_worker() -> list[Setting]:
    """What `bee worker` would make of its options: by asking them."""
    found = []
    with worker.make_context("bee worker", ["program"]) as context:
        for option in worker.params:
            if isinstance(option, Configured) and option.name is not None:
                value = context.params[option.name]
                shown = redact(value) if option.name == "url" and value is not None else value
                source = source_of(context, option.name)
                found.append(Setting(f"worker.{option.name}", _plain(shown), source))
    return found


def _plain(value: Any) -> Any:
    match value:
        case (str(host), int(port)):
            return f"{host}:{port}"
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _shown(value: Any) -> str:
    """As it stands in bee.toml."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _print_table(found: Sequence[Setting]) -> None:
    rows = [(one.name, _shown(one.value), one.source) for one in found]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}")
