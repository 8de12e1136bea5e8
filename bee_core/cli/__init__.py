"""The command `bee`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path

import click

from bee_core.cli.common.configured import use_config
from bee_core.cli.common.examples import examples
from bee_core.cli.common.group import LazyGroup, open_streams

COMMANDS = {
    "demo": "bee_core.cli.demo:demo",
    "worker": "bee_core.cli.worker:worker",
    "send": "bee_core.cli.send:send",
    "info": "bee_core.cli.info:info",
    "top": "bee_core.cli.top:top",
    "list": "bee_core.cli.list:list_jobs",
    "show": "bee_core.cli.show:show",
    "explain": "bee_core.cli.explain:explain",
    "retry": "bee_core.cli.retry:retry",
    "cancel": "bee_core.cli.cancel:cancel",
    "delete": "bee_core.cli.delete:delete",
    "pause": "bee_core.cli.pause:pause",
    "resume": "bee_core.cli.pause:resume",
    "purge": "bee_core.cli.purge:purge",
    "move": "bee_core.cli.move:move",
    "cron": "bee_core.cli.cron:cron",
    "schema": "bee_core.cli.schema:schema",
    "archive": "bee_core.cli.archive:archive",
    "replay": "bee_core.cli.replay:replay",
    "chaos": "bee_core.cli.chaos:chaos",
    "db": "bee_core.cli.db:db",
    "doctor": "bee_core.cli.doctor:doctor",
    "health": "bee_core.cli.health:health",
    "config": "bee_core.cli.config:config",
}
"""Where each command lives, in the order in which help lists them."""


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "bee demo                     jobs of every fate, in a few seconds",
        "bee worker shop.jobs:hive    work on the queues of a program",
        'bee send shop.jobs mail \'{"to": "ada"}\'',
        "bee top                      watch the queues",
        "bee list mail --group        what failed, and how often",
        "bee explain mail order-4711  say why a job is not running",
        "bee retry mail order-4711    try a failed job again",
    ),
)
@click.version_option(version("bee-jobs"), prog_name="bee")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=use_config,
    expose_value=False,
    metavar="FILE",
    help="Settings. Otherwise BEE_CONFIG, or bee.toml.",
)
def main() -> None:
    """Typed jobs in memory, on Redis and on PostgreSQL: one contract, nothing lost."""
    open_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # rather an escape than a traceback
        sys.stdout.reconfigure(errors="backslashreplace")
