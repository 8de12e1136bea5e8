"""`bee send`: jobs from the command line, a file or a pipe, checked by the program's classes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bee_core.cli.common.asking import json_option, program_url_option, use_store
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import load_hive, pick_queue
from bee_core.cli.common.units import as_seconds
from bee_core.cli.send.lines import IF_TAKEN, Common, Reader, Word
from bee_core.cli.send.sending import Sending


@click.command(
    short_help="Send a job, or many.",
    epilog=examples(
        'bee send shop.jobs:hive mail \'{"type": "send_email", "to": "ada"}\'',
        'bee send shop.jobs mail \'{"to": "ada"}\' --delay 5m --id ada-1',
        "bee send shop.jobs mail --file jobs.ndjson --id-from order",
        "bee send shop.jobs mail --file jobs.ndjson --dry-run",
        "bee send shop.jobs mail - < jobs.ndjson",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@click.argument("words", metavar="[QUEUE] [JSON|-]", nargs=-1)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A job a line, all checked before any is sent.",
)
@click.option("--delay", callback=as_seconds, metavar="TIME", help="Not before: 30s, 5m, 1h.")
@click.option("--id", metavar="ID", help="Sent once only, however often you try.")
@click.option("--id-from", metavar="FIELD", help="The id of each job is what this field says.")
@click.option("--key", metavar="KEY", help="Of the jobs with one key, one at a time.")
@click.option("--priority", type=int, default=0, metavar="N", help="-9 to 9, higher first: 0.")
@click.option(
    "--if-taken",
    type=click.Choice(list(IF_TAKEN)),
    default="keep",
    help="If a job of that id is there.",
)
@click.option("--dry-run", is_flag=True, help="Check only, and send nothing.")
@program_url_option
@json_option
def send(
    target: str,
    words: tuple[str, ...],
    file: Path | None,
    delay: float | None,
    id: str | None,
    id_from: str | None,
    key: str | None,
    priority: int,
    if_taken: Word,
    dry_run: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Send a job, or one for each line of a file or of standard input.

    JSON is a job with its kind, {"type": "send_email", "to": "ada"}; the kind may be left out if
    the queue has one only, and QUEUE if the hive has. A line of many may say more: {"job": {...},
    "id": "a", "delay": "5m", "key": "ada", "priority": 1, "if_taken": "update"}. It is taken so
    if it has a job and no type.

    Prints the id of each job. Of a file every line is checked first; standard input is sent as it
    comes, up to the first bad line.

    \b
    Exit codes:
      0  all were sent, or would be
      1  some were not sent; the message says how many were
      2  wrong use: no such module, hive, queue; a job that is none
      3  the store does not answer, or refuses
    """
    name, text = _words(words, file)
    if id is not None and (text is None or text == "-" or id_from is not None):
        raise WrongUse("--id is for one job: give many their ids in the lines, or by --id-from")
    with told_plainly():
        hive = load_hive(target)
        queue = pick_queue(hive, name)
        common = Common(
            id=id,
            id_from=id_from,
            delay=delay or 0.0,
            priority=priority,
            key=key,
            if_taken=if_taken,
        )
        reader = Reader(queue, common)
        if not dry_run:
            use_store(hive, url)
        sending = Sending(hive, queue, reader, dry_run=dry_run, as_json=as_json)
        if file is not None:
            sending.file(file)
        elif text is not None and text != "-":
            sending.one(text)
        else:
            sending.stream(sys.stdin.buffer)


def _words(words: tuple[str, ...], file: Path | None) -> tuple[str | None, str | None]:
    """The queue's name and the job, either of which may be left out."""
    *before, last = words or (None,)
    is_job = last is not None and (last == "-" or last.lstrip()[:1] in ("{", "["))
    names = before if is_job else [*before, *([] if last is None else [last])]
    if len(names) > 1:
        raise WrongUse(f"{names[-1]!r} is no job: JSON begins with {{, and - is standard input")
    if is_job and file is not None:
        raise WrongUse("give a job or --file, not both")
    if not is_job and file is None:
        raise WrongUse('give a job, {"type": ...}, or --file FILE, or - for standard input')
    return (names[0] if names else None), (last if is_job else None)
