"""`bee info`: what is in the queues, and who works on them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, json_option, print_json, url_option
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues, look_at_each
from bee_core.cli.common.tables import table, terminal_width
from bee_core.cli.common.words import one_line, span
from bee_core.presence import presence_of
from bee_core.stored import Holder, QueueStats

_TITLES = (
    "queue",
    ">ready",
    ">delayed",
    ">running",
    ">blocked",
    ">archived",
    ">oldest",
    ">workers",
    "paused",
    "archived because",
)
_WORKER_TITLES = ("queue", "worker", ">leases", ">since", "what it says")


class Look(msgspec.Struct, frozen=True):
    """One look at a queue."""

    queue: str
    stats: QueueStats
    workers: Sequence[Holder]


@click.command(
    short_help="Show what is in the queues, and who works on them.",
    epilog=examples(
        "bee info",
        "bee info mail films",
        "bee info --json | jq 'select(.oldest_due > 60) | .queue'",
    ),
)
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@url_option
@json_option
def info(queues: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Show what is in the queues, and who works on them.

    Without names it is every queue that holds something or is paused. "oldest" is how long the
    longest-due job that is ready has been waiting.

    \b
    Exit codes:
      0  fine, also if there are no queues
      1  there is no such queue
      2  wrong use
      3  the store does not answer, or refuses
    """
    looks = ask(url, lambda store: look_at(store, queues))
    if as_json:
        for look in looks:
            print_json(_plain(look))
        return
    if not looks:
        click.echo("no queues")
        return
    for line in lines(looks, time.time(), terminal_width()):
        click.echo(line)


async def look_at(store: Store, queues: Sequence[str]) -> list[Look]:
    """A look at each of these queues, or at all."""

    async def look(queue: str) -> Look:
        return Look(queue, await store.stats(queue), await store.workers(queue))

    await check_queues(store, queues)
    return await look_at_each(store, queues, look)


def lines(looks: Sequence[Look], now: float, width: int | None) -> Iterator[str]:
    """The two tables."""
    yield from table(_TITLES, [_row(look) for look in looks], width=width)
    yield ""
    rows = [_worker_row(look.queue, worker, now) for look in looks for worker in look.workers]
    if rows:
        yield from table(_WORKER_TITLES, rows, width=width)
    else:
        yield "nobody works on them" if len(looks) > 1 else "nobody works on it"


def _row(look: Look) -> Sequence[str]:
    stats = look.stats
    return (
        look.queue,
        str(stats.ready),
        str(stats.delayed),
        str(stats.leased),
        str(stats.blocked),
        str(sum(stats.archived.values())),
        "-" if stats.oldest_due is None else span(stats.oldest_due),
        str(len(look.workers)),
        "paused" if stats.paused else "-",
        reasons(stats.archived),
    )


def reasons(archived: Mapping[str, int]) -> str:
    """`38 failed, 2 timed_out`, the most first."""
    ordered = sorted(archived.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {reason}" for reason, number in ordered if number) or "-"


def _worker_row(queue: str, worker: Holder, now: float) -> Sequence[str]:
    since = "?" if worker.since is None else span(now - worker.since)
    return queue, one_line(worker.name), str(worker.leases), since, about(worker)


def about(worker: Holder) -> str:
    """What a worker says of itself, in words."""
    presence = presence_of(worker)
    if presence is None:
        return one_line(worker.about) or "nothing (it has not announced itself of late)"
    kinds = "too many kinds to tell" if presence.kinds is None else ", ".join(presence.kinds)
    return one_line(
        f"pid {presence.pid} on {presence.host}, bee {presence.version}, "
        f"{presence.concurrency} at once: {kinds}"
    )


def _plain(look: Look) -> dict[str, Any]:
    stats = look.stats
    return {
        "queue": look.queue,
        "ready": stats.ready,
        "delayed": stats.delayed,
        "running": stats.leased,
        "blocked": stats.blocked,
        "archived": sum(stats.archived.values()),
        "archived_because": dict(stats.archived),
        "oldest_due": stats.oldest_due,
        "paused": stats.paused,
        "created": stats.created,
        "ended": stats.ended,
        "workers": [
            msgspec.structs.asdict(worker) | {"about": presence_of(worker) or worker.about}
            for worker in look.workers
        ],
    }
