"""`bee worker`: a hive as a process, or as several.

Here are the words; what one process does is in `working.py`, what a supervisor does in
`supervising.py`, and what both are made of in `bee_core.service`. The user's program is imported
when the command runs, and never by a supervisor.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from bee_core.cli.common.configured import Configured
from bee_core.cli.common.examples import examples
from bee_core.cli.common.units import as_address, as_bytes, as_seconds
from bee_core.cli.worker.options import Options
from bee_core.url import UrlText

option = partial(click.option, cls=Configured)


@click.command(
    short_help="Work on the queues of a program.",
    epilog=examples(
        "bee worker shop.jobs:hive",
        "bee worker shop.jobs:hive --processes 4 --concurrency 20",
        "bee worker shop.jobs:hive --queues mail,films --until-empty",
        "bee worker shop.jobs --processes 2 --max-jobs 10000 --max-rss 512M",
        "bee worker shop.jobs --reload --grace 1s --log-level debug",
        "bee worker shop.jobs --processes 4 --metrics 9090",
        "bee worker shop.jobs --events - | jq 'select(.event == \"HandlerStuck\")'",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@option("--url", type=UrlText, metavar="URL", help="The broker. Otherwise what the program says.")
@option("--queues", metavar="A,B", help="These only. Otherwise all that have handlers.")
@option(
    "--concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="Jobs at once, for each queue; otherwise what the program says, or 10.",
)
@option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="So many processes, watched over."
)
@option("--until-empty/--no-until-empty", default=False, help="End when no job is left.")
@option("--grace", callback=as_seconds, metavar="TIME", help="For running jobs at the end: 25s.")
@option("--max-jobs", type=click.IntRange(min=1), metavar="N", help="Leave after so many jobs.")
@option(
    "--max-rss", callback=as_bytes, metavar="SIZE", help="Leave when memory exceeds this: 512M."
)
@option(
    "--heartbeat-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Written every second, for bee health.",
)
@option("--events", metavar="FILE", help="Every event as a line of JSON; - is stdout.")
@option(
    "--metrics",
    callback=as_address,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus, of all processes.",
)
@option("--reload/--no-reload", default=False, help="Start again when a .py file here has changed.")
@option(
    "--loop",
    type=click.Choice(["asyncio", "uvloop"]),
    default="asyncio",
    help="The event loop: asyncio.",
)
@option("--log", type=click.Choice(["text", "json"]), default="text", help="Form of the log: text.")
@option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    metavar="LEVEL",
    help="debug, info, warning or error: info.",
)
@click.option("--supervised", hidden=True, is_eager=True)
def worker(**given: Any) -> None:
    """Work on the queues of a program until told to stop.

    MODULE:HIVE is the hive to run, found from the current directory; MODULE alone will do if it has
    exactly one. The first SIGTERM or SIGINT lets running jobs end for the grace period, the second
    interrupts them now, the third ends the process at once.

    Every option can also be set by a variable, BEE_WORKER_CONCURRENCY=20, or in [worker] of
    bee.toml: concurrency = 20.

    \b
    Exit codes:
      0    ended as asked: stopped, nothing left, enough jobs done
      1    an unexpected error, or it did not stop in time
      2    wrong use: no such module, hive, queue, option; no handlers
      75   handlers are stuck: start it again
      78   the store is not set up as it must be
      130  a third signal came
    """
    options = Options(**given)
    if options.supervised is None and (options.processes is not None or options.reload):
        from bee_core.cli.worker.supervising import supervise as run
    else:
        from bee_core.cli.worker.working import work as run
    raise SystemExit(int(run(options)))
