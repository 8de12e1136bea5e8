"""`bee health`: what probes ask of a worker. Whether it lives is in its heartbeat file alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from bee_core.cli.common.asking import IN_MEMORY, is_memory, json_option, url_saying
from bee_core.cli.common.configured import Configured
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.units import as_seconds
from bee_core.config import broker_url
from bee_core.errors import BeeError
from bee_core.registry import connect
from bee_core.service.pulse import Pulse, age, read_pulse

_PATIENCE = 5.0
"""Seconds for the broker to answer."""


@click.command(
    short_help="Say whether a worker lives, and whether it is ready.",
    epilog=examples(
        "bee health --heartbeat-file /run/bee/heartbeat",
        "bee health --heartbeat-file /run/bee/heartbeat --max-age 1m",
        "bee health --heartbeat-file /run/bee/heartbeat --ready",
        "bee health --ready --url redis://localhost",
    ),
)
@click.option(
    "--heartbeat-file",
    cls=Configured,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="That of bee worker. Otherwise what is set for it.",
)
@click.option(
    "--max-age",
    callback=as_seconds,
    default="30s",
    metavar="TIME",
    help="Older than this is dead: 30s.",
)
@click.option("--ready", is_flag=True, help="Also: it works, and the broker answers.")
@url_saying("With --ready: the broker. Otherwise BEE_URL, or that of bee.toml.")
@json_option
def health(
    heartbeat_file: Path | None, max_age: float, ready: bool, url: str | None, as_json: bool
) -> None:
    """Say whether a worker lives, for probes.

    It lives if its heartbeat file is young: the broker is not asked, because a restart would not
    mend it. It is ready if, besides, it works, has heard from its broker of late on every queue,
    and the broker answers this command too.

    \b
    Exit codes:
      0  it is well
      1  it is not, and the one line says why
      2  wrong use
    """
    if heartbeat_file is None and not ready:
        raise WrongUse("give --heartbeat-file, or set BEE_HEARTBEAT_FILE: the one of the worker")
    if heartbeat_file is None and _in_memory(url):
        raise WrongUse(IN_MEMORY)
    pulse: Pulse | None = None
    problem: str | None = None
    try:
        if heartbeat_file is not None:
            pulse = read_pulse(heartbeat_file)
            problem = not_alive(pulse, max_age) or (not_ready(pulse) if ready else None)
    except BeeError as error:
        problem = str(error)
    if ready and problem is None:
        problem = asyncio.run(_ask(url))
    if as_json:
        shown = None if pulse is None else age(pulse)
        click.echo(json.dumps({"ok": problem is None, "problem": problem, "age": shown}))
    else:
        click.echo(f"well: {_standing(pulse)}" if problem is None else problem)
    raise SystemExit(0 if problem is None else 1)


def not_alive(pulse: Pulse, max_age: float) -> str | None:
    """Why it does not live; None if it does."""
    oldest = pulse.oldest()
    if age(oldest) <= max_age:
        return None
    return (
        f"process {oldest.pid} has been silent for {age(oldest):.0f} s (allowed: {max_age:g} s): "
        "its event loop is blocked, or it is gone"
    )


def not_ready(pulse: Pulse) -> str | None:
    """Why it is not ready, as far as it knows itself; None if it is."""
    if pulse.state != "working":
        return f"it is {pulse.state}"
    for name, queue in pulse.queues.items():
        if not queue.ready:
            since = "yet" if queue.fetched_ago is None else f"for {queue.fetched_ago:.0f} s"
            return f"queue {name!r} has not heard from the broker {since}"
    return None


def _in_memory(url: str | None) -> bool:
    with told_plainly():
        return is_memory(broker_url(url))


async def _ask(url: str | None) -> str | None:
    """Ask the broker one question; return why there was no answer."""
    try:
        async with asyncio.timeout(_PATIENCE), connect(broker_url(url)) as broker:
            await broker.queues()
    except TimeoutError:
        return f"the broker did not answer within {_PATIENCE:g} s"
    except (BeeError, ImportError) as error:
        return f"the broker does not answer: {error}".splitlines()[0]
    return None


def _standing(pulse: Pulse | None) -> str:
    if pulse is None:
        return "the broker answers"
    jobs = sum(queue.running for queue in pulse.queues.values())
    return f"{pulse.state}, {jobs} running, last seen {age(pulse):.1f} s ago"
