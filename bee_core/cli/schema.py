"""`bee schema`: what the jobs of a program look like, and whether those that wait would be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.asking import ask_hive, json_option, print_json, url_saying
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.cli.common.examples import examples
from bee_core.cli.common.loading import load_hive, pick_queue
from bee_core.cli.common.selecting import pages
from bee_core.codec import KIND_HEADER, JsonCodec, peek_kind
from bee_core.errors import DecodeError
from bee_core.hive_queue import HiveQueue
from bee_core.schema import DIALECT, Change, Schema, compare, schema_of
from bee_core.stored import State, Stored

_EXAMPLES = 3
_MOST_GROUPS = 50
"""As many different problems of a queue are told apart."""


@click.command(
    short_help="Show what jobs look like; check that those that wait survive a change.",
    epilog=examples(
        "bee schema shop.jobs:hive > jobs.schema.json",
        "bee schema shop.jobs:hive --check jobs.schema.json",
        "bee schema shop.jobs:hive mail --json | jq .queues.mail",
        "bee schema shop.jobs:hive --live --archived --url redis://localhost",
    ),
)
@click.argument("target", metavar="MODULE:HIVE")
@click.argument("queue", required=False)
@click.option(
    "--check",
    "old",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compare with what this command printed before.",
)
@click.option("--live", is_flag=True, help="Read what is in the store with the classes of now.")
@click.option("--archived", is_flag=True, help="With --live: the archive, too.")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --live: so many of each queue and state.",
)
@url_saying("With --live: the broker. Otherwise the program's.")
@json_option
def schema(
    target: str,
    queue: str | None,
    old: Path | None,
    live: bool,
    archived: bool,
    sample: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Print the JSON Schema of every queue's jobs; or check that jobs survive a change.

    The same classes always give the same text, so it can be committed. With --check, an older
    text is compared: jobs that were sent by it must be read by the classes of now. What is wider
    is fine. With --live, the jobs in the store are read, and nothing is changed.

    \b
    Exit codes:
      0  printed, or all would be read
      1  jobs would not be read, or it cannot be told
      2  wrong use: no such module, hive, queue, file
      3  with --live: the store does not answer, or refuses
    """
    if not live and (archived or sample is not None or url is not None):
        raise WrongUse("--archived, --sample and --url go with --live")
    with told_plainly():
        hive = load_hive(target)
        chosen = [pick_queue(hive, queue)] if queue is not None else list(hive.queues.values())
        if not live and old is None:
            shown = _document(chosen, whole=queue is None)
            click.echo(json.dumps(shown, indent=None if as_json else 2, ensure_ascii=False))
            return
        found = 0
        if old is not None:
            found += _tell_changes(_changes(_read(old), chosen, whole=queue is None), as_json)
        if live:
            seen = ask_hive(hive, url, lambda store: _look_at(store, chosen, archived, sample))
            found += _tell_unread(seen, as_json)
    raise SystemExit(1 if found else 0)


# What it looks like.


def _document(chosen: Sequence[HiveQueue[Any]], *, whole: bool) -> Schema:
    queues: dict[str, Schema] = {}
    for queue in chosen:
        if isinstance(queue.codec, JsonCodec):
            queues[queue.name] = schema_of(queue.form)
        elif not whole:
            raise WrongUse(f"queue {queue.name!r} has a codec of its own, so bee knows no schema")
        else:
            click.echo(f"left out: {queue.name}, which has a codec of its own", err=True)
    return {"$schema": DIALECT, "queues": dict(sorted(queues.items()))}


# Whether a change is survived.


def _read(path: Path) -> Mapping[str, Schema]:
    try:
        queues = msgspec.json.decode(path.read_bytes())["queues"]
        return msgspec.convert(queues, dict[str, dict[str, Any]])
    except (OSError, msgspec.MsgspecError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise WrongUse(f"{path} is not what bee schema prints: {error}") from error


def _changes(
    old: Mapping[str, Schema], chosen: Sequence[HiveQueue[Any]], *, whole: bool
) -> list[tuple[str, Change]]:
    new = _document(chosen, whole=whole)["queues"]
    found: list[tuple[str, Change]] = []
    for name, schema in old.items():
        if name in new:
            try:
                found += [(name, change) for change in compare(schema, new[name])]
            except (KeyError, TypeError, AttributeError) as error:
                raise WrongUse(f"the old schema of {name!r} cannot be read: {error!r}") from error
        elif whole:
            what = "this queue is gone, or has a codec of its own now"
            advice = "keep it until it is empty: see bee info"
            found.append((name, Change("all jobs", what, advice)))
    return found


def _tell_changes(changes: list[tuple[str, Change]], as_json: bool) -> int:
    for queue, change in changes:
        if as_json:
            print_json({"queue": queue} | msgspec.to_builtins(change))
        else:
            click.echo(f"{queue}: {change}")
    if not changes and not as_json:
        click.echo("fine: jobs of the old schema would be read")
    return len(changes)


# Whether what is there is read.


class _Unread(msgspec.Struct):
    """Jobs of one kind that would not be read, for one reason."""

    queue: str
    kind: str | None
    problem: str
    count: int = 0
    ids: list[str] = []


class _Seen(msgspec.Struct):
    """What was found in a queue."""

    queue: str
    jobs: int = 0
    unread: dict[tuple[str | None, str], _Unread] = {}


async def _look_at(
    store: Store, chosen: Sequence[HiveQueue[Any]], archived: bool, sample: int | None
) -> list[_Seen]:
    # As time moves them, so that what becomes due meanwhile is met.
    states = [State.DELAYED, State.READY, State.LEASED, State.BLOCKED]
    states += [State.ARCHIVED] if archived else []
    found = []
    for queue in chosen:
        seen = _Seen(queue.name)
        for state in states:
            await _look(store, queue, state, sample, seen)
        found.append(seen)
    return found


async def _look(
    store: Store, queue: HiveQueue[Any], state: State, sample: int | None, seen: _Seen
) -> None:
    looked_at = 0
    async for page in pages(store, queue.name, state):
        for stored in page:
            if looked_at == sample:
                return
            looked_at += 1
            if KIND_HEADER not in stored.headers:  # of bee's own
                seen.jobs += 1
                _try(queue, stored, seen)


def _try(queue: HiveQueue[Any], stored: Stored, seen: _Seen) -> None:
    try:
        job = queue.decode(stored.id, stored.body)
        queue.rules(type(job), stored.headers)
    except DecodeError as error:
        kind = peek_kind(stored.body)
        place = kind, error.problem
        if place not in seen.unread and len(seen.unread) >= _MOST_GROUPS:
            place = None, "for other reasons"
        group = seen.unread.setdefault(place, _Unread(queue.name, *place))
        group.count += 1
        if len(group.ids) < _EXAMPLES:
            group.ids.append(stored.id)


def _tell_unread(found: list[_Seen], as_json: bool) -> int:
    unread = [group for seen in found for group in seen.unread.values()]
    for group in unread:
        if as_json:
            print_json(group)
        else:
            kind = "no job at all" if group.kind is None else group.kind
            ids = ", ".join(group.ids) + (", ..." if group.count > len(group.ids) else "")
            click.echo(f"{group.queue}: {group.count} x {kind}: {group.problem} ({ids})")
    jobs = sum(seen.jobs for seen in found)
    if not as_json:
        bad = sum(group.count for group in unread)
        click.echo(f"{bad} of {jobs} jobs would not be read" if bad else f"fine: {jobs} jobs read")
    return len(unread)
