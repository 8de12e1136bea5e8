"""Hold the broker behind a URL against the model, and print the card. Its other queues stay as
they are: it works in one of its own."""

from __future__ import annotations

import sys
import traceback

import click

from bee_core.registry import connect
from bee_core.testing.model import examine


@click.command(help=__doc__)
@click.argument("url")
@click.option(
    "--runs", default=200, show_default=True, help="How many runs, each on an empty queue."
)
@click.option("--steps", default=50, show_default=True, help="How many steps in each.")
@click.option("--seed", default=0, show_default=True, help="Another seed, other steps.")
def main(url: str, runs: int, steps: int, seed: int) -> None:
    card = examine(lambda: connect(url), runs=runs, steps=steps, seed=seed)
    if card.failure is not None:
        click.echo("".join(traceback.format_exception(card.failure)), err=True)
    click.echo(str(card))
    sys.exit(1 if card.failure is not None else 0)


if __name__ == "__main__":
    main(prog_name="python -m bee_core.testing.model")
