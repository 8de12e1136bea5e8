"""The command `bee`."""

from __future__ import annotations

from importlib.metadata import version

import click

from bee_core.cli.examples import examples
from bee_core.cli.group import LazyGroup

COMMANDS = {
    "demo": "bee_core.cli.demo:demo",
    "worker": "bee_core.cli.worker:worker",
    "health": "bee_core.cli.health:health",
    "explain": "bee_core.cli.explain:explain",
    "move": "bee_core.cli.move:move",
    "db": "bee_core.cli.db:db",
}
"""Where each command lives, in the order in which help lists them."""


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "bee demo          watch a handful of jobs of every fate, in a few seconds",
        "bee db apply      create or upgrade the schema in PostgreSQL",
        "bee worker shop.jobs:hive    work on the queues of a program",
        "bee explain mail order-4711  say why a job is not running",
    ),
)
@click.version_option(version("bee-jobs"), prog_name="bee")
def main() -> None:
    """Typed jobs in memory, on Redis and on PostgreSQL: one contract, nothing lost."""
