"""The command `bee`."""

from __future__ import annotations

from importlib.metadata import version

import click

from bee_core.cli.db import db
from bee_core.cli.examples import examples
from bee_core.cli.explain import explain
from bee_core.cli.health import health
from bee_core.cli.worker import worker


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "bee demo          watch a handful of jobs of every fate, in a few seconds",
        "bee demo | cat    the same as plain lines",
        "bee db apply      create or upgrade the schema in PostgreSQL",
        "bee worker shop.jobs:hive    work on the queues of a program",
        "bee explain mail order-4711  say why a job is not running",
    ),
)
@click.version_option(version("bee-jobs"), prog_name="bee")
def main() -> None:
    """Typed jobs in memory, on Redis and on PostgreSQL: one contract, nothing lost."""


@main.command()
@click.option("--plain", is_flag=True, help="Plain lines, also in a terminal.")
def demo(plain: bool) -> None:
    """Run jobs of every fate on the memory broker, and check that none was lost.

    \b
    Takes about two seconds and ends by itself.
    Exit code: 0 if every job met its fate, 1 if the audit found otherwise.
    """
    from bee_core.cli.demo import run_demo

    raise SystemExit(run_demo(plain=plain))


main.add_command(db)
main.add_command(worker)
main.add_command(health)
main.add_command(explain)
