"""Options that can be set elsewhere too: by a variable, or in the file. The command line wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from bee_core.cli.common.errors import WrongUse
from bee_core.config import (
    ARGUMENT,
    CONFIG_VARIABLE,
    DEFAULT,
    HEARTBEAT_VARIABLE,
    read_settings,
    worker_variable,
)
from bee_core.errors import BeeError


class Configured(click.Option):
    """An option of `bee worker`: also BEE_WORKER_NAME, and `name` in `[worker]` of the file.

    The file is read when the first such option is looked for, so help needs none. A process of a
    supervisor has been told everything, and looks nowhere.
    """

    def __init__(self, words: list[str], **options: Any) -> None:
        super().__init__(words, **options)
        assert self.name is not None
        self.envvar = [worker_variable(self.name)]
        if self.name == "heartbeat_file":
            self.envvar.append(HEARTBEAT_VARIABLE)

    def consume_value(
        self, context: click.Context, found: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        if context.default_map is None:
            supervised = context.get_parameter_source("supervised") is ParameterSource.COMMANDLINE
            context.default_map = {} if supervised else _from_file(context)
        return super().consume_value(context, found)

    def get_error_hint(self, context: click.Context | None) -> str:
        if context is not None and self.name is not None:
            source = source_of(context, self.name)
            if source not in (ARGUMENT, DEFAULT):
                return (
                    source if source in self.variables else f"{self.name} in [worker] of {source}"
                )
        return super().get_error_hint(context)

    @property
    def variables(self) -> list[str]:
        """The variables that set it, the one that wins first."""
        return [str(name) for name in self.envvar or ()]


def source_of(context: click.Context, name: str) -> str:
    """Where the value of an option came from, in a word or two."""
    option = next(option for option in context.command.params if option.name == name)
    match context.get_parameter_source(name):
        case ParameterSource.COMMANDLINE:
            return ARGUMENT
        case ParameterSource.ENVIRONMENT:
            assert isinstance(option, Configured)
            return next(variable for variable in option.variables if os.environ.get(variable))
        case ParameterSource.DEFAULT_MAP:
            return str(context.meta[_FILE])
        case _:
            return DEFAULT


def use_config(context: click.Context, option: click.Parameter, file: Path | None) -> None:
    """`--config`: for this command and for all that it starts, as BEE_CONFIG."""
    if file is None or context.resilient_parsing:
        return
    if not file.exists():
        raise WrongUse(f"there is no file {file}, which --config names")
    before = os.environ.get(CONFIG_VARIABLE)
    os.environ[CONFIG_VARIABLE] = str(file.absolute())
    context.call_on_close(lambda: _restore(before))


_FILE = "bee_core.cli.common.configured.file"


def _from_file(context: click.Context) -> dict[str, Any]:
    try:
        settings = read_settings()
    except BeeError as error:
        raise WrongUse(str(error)) from error
    context.meta[_FILE] = settings.file
    return settings.worker.options()


def _restore(before: str | None) -> None:
    with suppress(KeyError):
        del os.environ[CONFIG_VARIABLE]
    if before is not None:
        os.environ[CONFIG_VARIABLE] = before
