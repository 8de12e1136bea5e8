"""`bee replay`: one exported job, run here, by the program's own handler, on a broker in memory."""

from __future__ import annotations

import asyncio
import pdb
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from bee_core.cli.common.asking import json_option, print_json
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.exports import read_export
from bee_core.cli.common.loading import load_hive, pick_queue
from bee_core.cli.common.units import duration
from bee_core.cli.common.words import many_lines
from bee_core.cli.replay.running import Replayed, replay_job
from bee_core.errors import InvalidInput
from bee_core.export import Exported
from bee_core.logs import error_line
from bee_core.outcome import Failed, Succeeded, reason_of
from bee_core.processes import InChild
from bee_core.text import escaped

_MOST_IDS = 10


def _as_timeout(
    context: click.Context, option: click.Parameter, given: str | None
) -> float | str | None:
    """Seconds, or none."""
    try:
        return given if given in (None, "none") else duration(given)
    except InvalidInput as error:
        raise click.BadParameter(f"{error}, and not none") from error


@click.command(
    short_help="Run one exported job here, and see what happens.",
    epilog=examples(
        "bee archive export mail order-4711 -o job.ndjson",
        "bee replay job.ndjson shop.jobs:hive",
        "bee replay job.ndjson shop.jobs:hive --pdb --timeout none",
        "bee replay archive.ndjson shop.jobs:hive --id order-4711",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", metavar="MODULE:HIVE")
@click.option("--id", metavar="ID", help="Which, if the file has several.")
@click.option("--queue", metavar="QUEUE", help="As a job of this queue. Otherwise that it was in.")
@click.option("--pdb", "debug", is_flag=True, help="Open the debugger where it raised.")
@click.option(
    "--timeout", callback=_as_timeout, metavar="TIME", help="Instead of its policy's: 5m, or none."
)
@json_option
def replay(
    file: Path,
    target: str,
    id: str | None,
    queue: str | None,
    debug: bool,
    timeout: float | str | None,
    as_json: bool,
) -> None:
    """Run one exported job on this machine, by the program's own handler.

    What the handler does to the world outside is REAL: it sends the mail, it charges the card. Only
    the broker is not: the job runs on one in memory, with the counters of its last run, and what
    the handler sends through its hive goes there and is printed. The store that the job comes
    from is not touched.

    \b
    Exit codes:
      0  it succeeded
      1  it did not
      2  wrong use: no such file, module, hive, queue, id
    """
    with told_plainly():
        exported = _pick(file, id)
        hive = load_hive(target)
        chosen = pick_queue(hive, exported.queue if queue is None else queue)
        if not chosen.handlers.any:
            raise WrongUse(f"queue {chosen.name!r} has no handler in {target}")
        if not as_json:
            click.echo(
                f"{escaped(exported.id)} of queue {chosen.name}, run here; its effects are real"
            )
        with redirect_stdout(sys.stderr if as_json else sys.stdout):  # what the handler prints
            found = asyncio.run(replay_job(hive, chosen, exported, timeout))
    if as_json:
        print_json(_plain(found))
    else:
        _tell(found, awaits=exported.awaits)
    if debug:
        _debug(found)
    raise SystemExit(0 if isinstance(found.outcome, Succeeded) else 1)


def _pick(file: Path, id: str | None) -> Exported:
    found = [exported for _, exported in read_export(file)]
    matching = [one for one in found if id in (None, one.id)]
    if len(matching) == 1 or (id is not None and matching):
        return matching[-1]
    if not found:
        raise WrongUse(f"{file} is empty")
    more = ", ..." if len(found) > _MOST_IDS else ""
    ids = ", ".join(escaped(one.id) for one in found[:_MOST_IDS]) + more
    if matching:
        raise WrongUse(f"{file} has {len(found)} jobs: say which by --id, of {ids}")
    raise WrongUse(f"{file} has no job {id!r}; it has {ids}")


def _tell(found: Replayed, awaits: int) -> None:
    outcome = found.outcome
    took = f"{found.seconds:.3f} s"
    if isinstance(outcome, Failed):
        click.echo(many_lines(own_traceback(outcome.error)))
    elif not isinstance(outcome, Succeeded) and found.detail:
        click.echo(many_lines(found.detail))
    click.echo(
        f"outcome:   {reason_of(outcome).replace('_', ' ')} after {took}, as run {found.run}"
    )
    if isinstance(outcome, Succeeded) and outcome.result is not None:
        click.echo(f"returned:  {outcome.result!r:.1000}")
    click.echo(f"decision:  {found.decision}")
    for one in found.sent:
        click.echo(f"sent:      {escaped(str(one))}")
    if awaits:
        click.echo(f"note:      the {awaits} results that it gathers are not in an export")


def _plain(found: Replayed) -> dict[str, Any]:
    error = found.outcome.error if isinstance(found.outcome, Failed) else None
    return {
        "id": found.id,
        "queue": found.queue,
        "kind": found.tag,
        "run": found.run,
        "outcome": reason_of(found.outcome),
        "seconds": found.seconds,
        "error": None if error is None else error_line(error),
        "traceback": found.detail if error is None else own_traceback(error),
        "decision": found.decision,
        "sent": found.sent,
    }


def own_traceback(error: BaseException) -> str:
    """The traceback, without the steps of bee that lead to the handler."""
    if error.__traceback__ is None:
        return f"{error_line(error)}\n"
    frames = traceback.TracebackException.from_exception(error)
    while frames.stack and "/bee_core/" in frames.stack[0].filename.replace("\\", "/"):
        frames.stack.pop(0)
    return "".join(frames.format())


def _debug(found: Replayed) -> None:
    if not isinstance(found.outcome, Failed):
        click.echo("there is nothing to debug: it did not raise", err=True)
    elif isinstance(found.outcome.error.__cause__, InChild):
        click.echo("it was raised in another process, where the debugger cannot look", err=True)
    else:
        pdb.post_mortem(found.outcome.error.__traceback__)
