"""A group of commands that are imported when they are used, or when help lists them all."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LazyGroup(click.Group):
    """Knows of each command where it lives: `{"list": "bee_core.cli.list:list_jobs"}`."""

    def __init__(self, *, places: Mapping[str, str], **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._places = dict(places)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._places:
            return None
        module, _, attribute = self._places[name].partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            raise SystemExit(_INTERRUPTED) from None
        except OSError as error:
            if error.errno not in _FULL:
                raise
            with suppress(OSError, ValueError):  # what is left could not be written at the end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.ClickException(
                f"what it says cannot be written: {error.strerror}"
            ) from error


def open_streams() -> None:
    """See to it that there are three, also if who started it has closed them: nobody, and empty.

    Otherwise the first connection would get the place of one, and hear what is said there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
