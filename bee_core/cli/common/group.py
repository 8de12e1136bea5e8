"""A group of commands that are imported when they are used, or when help lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click


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
