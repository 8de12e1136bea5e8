"""`bee doctor`: what is wrong with a set-up, and what to do about it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, ask_hive, json_option, print_json, url_option
from bee_core.cli.common.errors import told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import load_hive
from bee_core.cli.common.words import count
from bee_core.config import broker_url, read_settings, unknown_variables
from bee_core.diagnosis import Declared, Program, Remark, Seen, findings, look
from bee_core.errors import BeeError, NoHandler
from bee_core.hive import Hive
from bee_core.hive_queue import HiveQueue
from bee_core.job import members, tag_of
from bee_core.url import redact

_PACKAGES = ("redis", "psycopg", "prometheus-client", "uvloop", "opentelemetry-api")


@click.command(
    short_help="Say what is wrong, and what to do about it.",
    epilog=examples(
        "bee doctor",
        "bee doctor shop.jobs:hive",
        "bee doctor --url postgresql://ada@localhost/shop",
        "bee doctor --json | jq -r '.findings[].text'",
    ),
)
@click.argument("target", metavar="[MODULE:HIVE]", required=False)
@url_option
@json_option
def doctor(target: str | None, url: str | None, as_json: bool) -> None:
    """Say what is wrong with a store and its queues, and what to do about it.

    Looks at versions, the server and its clock, the schema in PostgreSQL, and every queue: who
    works on it, what waits there, what is paused, how large the archive is. With MODULE:HIVE also
    whether that program fits what is in the queues. Changes nothing.

    Problems count for the exit code; hints do not.

    \b
    Exit codes:
      0  no problem found
      1  problems found
      2  wrong use
      3  the store cannot be reached, or it refuses
    """
    hive = None if target is None else load_hive(target)
    if hive is None:
        with told_plainly():
            where = redact(broker_url(url))
        seen = ask(url, look)
    else:
        where, seen = ask_hive(hive, url, _look_by_name)
    found = findings(seen, None if hive is None else _program(hive))
    found += [Remark(level="hint", topic="settings", text=text) for text in _settings_remarks()]
    if as_json:
        print_json(_plain(where, seen, found))
    else:
        _print(where, seen, found)
    raise SystemExit(1 if _problems(found) else 0)


async def _look_by_name(store: Store) -> tuple[str, Seen]:
    """What a program's broker calls itself, as it may have no URL; and a look at it."""
    return repr(store).strip("<>"), await look(store)


def _program(hive: Hive) -> Program:
    return {name: _declared(queue) for name, queue in hive.queues.items()}


def _declared(queue: HiveQueue[Any]) -> Declared:
    if not queue.handlers.any:
        return Declared(frozenset(tag_of(kind) for kind in members(queue.form)), sends_only=True)
    problem = None
    try:
        queue.handlers.check()
    except NoHandler as error:
        problem = str(error)
    return Declared(frozenset(queue.handlers.kinds), problem)


def _settings_remarks() -> Sequence[str]:
    try:
        remarks = read_settings().remarks
    except BeeError as error:  # it was not needed, as the URL was given
        remarks = (str(error),)
    return (*remarks, *unknown_variables())


def _problems(found: Sequence[Remark]) -> int:
    return sum(remark.level == "problem" for remark in found)


# In words.


def _versions() -> dict[str, str]:
    found = {"bee-jobs": version("bee-jobs"), "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _print(where: str, seen: Seen, found: Sequence[Remark]) -> None:
    click.echo(", ".join(f"{name} {number}" for name, number in _versions().items()))
    click.echo(where)
    if (server := seen.server) is not None:
        answer = f"answers within {server.round_trip * 1000:.1f} ms"
        click.echo(f"{server.name}, {answer}, its clock is {server.ahead:+.3f} s from here")
        if server.state:
            click.echo(server.state)
    for queue in seen.queues:
        stats = queue.stats
        click.echo(
            f"queue {queue.name}: {stats.ready} ready, {stats.delayed} delayed, {stats.leased} "
            f"leased, {sum(stats.archived.values())} archived; workers: {len(queue.workers)}"
        )
    click.echo()
    for remark in found:
        about = "" if remark.queue is None else f"queue {remark.queue}: "
        click.echo(f"{remark.level}: {about}{remark.text}")
    problems = _problems(found)
    click.echo(f"{count(problems, 'problem')} found" if problems else "no problem found")


def _plain(where: str, seen: Seen, found: Sequence[Remark]) -> dict[str, Any]:
    server = seen.server
    return {
        "ok": not _problems(found),
        "versions": _versions(),
        "store": where,
        "server": None if server is None else server.name,
        "round_trip": None if server is None else server.round_trip,
        "clock_ahead": None if server is None else server.ahead,
        "state": None if server is None else server.state,
        "queues": [
            {
                "name": queue.name,
                "stats": queue.stats,
                "workers": [worker.name for worker in queue.workers],
                "archived_an_hour": queue.archived_an_hour,
            }
            for queue in seen.queues
        ],
        "findings": found,
    }
