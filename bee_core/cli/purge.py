"""`bee purge`: much at once, for ever."""

from __future__ import annotations

import time

import click

from bee_core.broker import Store
from bee_core.cli.common.acting import agreed, dry_run_option, yes_option
from bee_core.cli.common.asking import ask, url_option
from bee_core.cli.common.errors import WrongUse
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues, pages
from bee_core.cli.common.units import as_seconds
from bee_core.cli.common.words import count, span
from bee_core.stored import QueueStats, State

_BATCH = 1000


@click.command(
    short_help="Delete what waits in a queue, or its archive, or all of it.",
    epilog=examples(
        "bee purge mail                                 what waits",
        "bee purge mail --archive --older-than 7d -y    from cron, say",
        "bee purge mail --archive --keep 1000",
        "bee purge old-queue --drop                     all of it",
    ),
)
@click.argument("queue")
@click.option("--archive", is_flag=True, help="The archive, and nothing of what is live.")
@click.option(
    "--older-than", callback=as_seconds, metavar="TIME", help="Of the archive, what is older: 7d."
)
@click.option(
    "--keep", type=click.IntRange(min=0), metavar="N", help="Of the archive, not the newest N."
)
@click.option("--drop", is_flag=True, help="The whole queue, running jobs and archive included.")
@dry_run_option
@yes_option
@url_option
def purge(
    queue: str,
    archive: bool,
    older_than: float | None,
    keep: int | None,
    drop: bool,
    dry_run: bool,
    yes: bool,
    url: str | None,
) -> None:
    """Delete what waits in a queue: ready, delayed and blocked jobs. Or something else of it.

    Running jobs go on and the archive stays, unless you say --drop. It is for ever, so you are
    asked first; bee cancel --all keeps what it takes away in the archive. Schedules are purged too,
    and planned anew by their workers within ten minutes.

    \b
    Exit codes:
      0  done, or nothing to do
      1  there is no such queue; or you said no
      2  wrong use; also: nobody to ask, and no -y
      3  the store does not answer, or refuses
    """
    if archive and drop:
        raise WrongUse("give --archive or --drop, not both: --drop deletes the archive, too")
    if not archive and (older_than is not None or keep is not None):
        raise WrongUse("--older-than and --keep go with --archive")

    async def go(store: Store) -> None:
        await check_queues(store, [queue])
        stats = await store.stats(queue)
        if archive:
            await _prune(store, queue, stats, older_than or 0.0, keep or 0, dry_run, yes)
        elif drop:
            everything = f"{_parts(stats, 'leased')} and {_archived(stats)} of {queue}"
            what = f"delete {everything} for ever, and the queue itself"
            if agreed(what, dry_run=dry_run, yes=yes):
                await store.drop(queue)
                click.echo(f"dropped {everything}, and the queue itself")
        elif not (waiting := stats.live - stats.leased):
            click.echo(f"nothing waits in {queue}: nothing to do")
        elif agreed(f"delete {_parts(stats)} of {queue} for ever", dry_run=dry_run, yes=yes):
            gone = await store.purge(queue)
            less = "" if gone == waiting else f" (there were {waiting} before)"
            click.echo(f"deleted {count(gone, 'waiting job')} of {queue}{less}")

    ask(url, go)


async def _prune(
    store: Store,
    queue: str,
    stats: QueueStats,
    older_than: float,
    keep: int,
    dry_run: bool,
    yes: bool,
) -> None:
    total = max(0, sum(stats.archived.values()) - keep)
    if older_than and total and not yes:
        total = min(total, await _count_older(store, queue, older_than))
    if not total:
        click.echo(f"no archived job of {queue} is like that: nothing to do")
        return
    old = f" that are older than {span(older_than)}" if older_than else ""
    what = count(total, "archived job") if not (yes and older_than) else "all archived jobs"
    if not agreed(f"delete {what} of {queue}{old} for ever", dry_run=dry_run, yes=yes):
        return
    gone = 0
    while gone < total:  # no more than were there: others may be archiving all the time
        some = await store.prune(
            queue, older_than=older_than, keep=keep, limit=min(_BATCH, total - gone)
        )
        gone += some
        if not some:
            break
    click.echo(f"deleted {count(gone, 'archived job')} of {queue}")


async def _count_older(store: Store, queue: str, older_than: float) -> int:
    limit, found = time.time() - older_than, 0
    async for page in pages(store, queue, State.ARCHIVED):
        found += sum((one.archived_at or 0.0) <= limit for one in page)
    return found


def _parts(stats: QueueStats, *more: str) -> str:
    """`12 ready, 3 delayed, 0 blocked`."""
    return ", ".join(
        f"{getattr(stats, name)} {'running' if name == 'leased' else name}"
        for name in ("ready", "delayed", "blocked", *more)
    )


def _archived(stats: QueueStats) -> str:
    return f"{sum(stats.archived.values())} archived"
