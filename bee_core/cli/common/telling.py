"""What a command says while it works: lines, whether anybody reads them or not; how far it is."""

from __future__ import annotations

import os
import sys

import click

from bee_core.cli.common.tables import is_terminal

_WIDTH = 30


def say(line: str | bytes, *, err: bool = False) -> None:
    """Print a line. If nobody reads any more, that is no error, and the work goes on."""
    out = sys.stderr if err else sys.stdout
    try:
        click.echo(line, file=out)
    except BrokenPipeError:
        # What is left in the buffer could not be written at the end either.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


class Progress:
    """How far it is, redrawn on standard error; nothing at all if that is no terminal.

    A bar if it is known how much there is, otherwise the text alone.
    """

    def __init__(self, whole: int | None) -> None:
        self._whole = whole
        self._on = is_terminal(sys.stderr)

    def show(self, part: int, text: str) -> None:
        """So much of the whole is done, and that in words."""
        if not self._on:
            return
        bar = ""
        if self._whole:
            share = min(part / self._whole, 1.0)
            full = round(share * _WIDTH)
            bar = f"[{'#' * full}{'-' * (_WIDTH - full)}] {share:4.0%}  "
        click.echo(f"\r{bar}{text}\x1b[K", err=True, nl=False)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._on:
            click.echo("\r\x1b[K", err=True, nl=False)
