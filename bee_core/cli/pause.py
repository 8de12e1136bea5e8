"""`bee pause` and `bee resume`: whether a queue gives out jobs."""

from __future__ import annotations

import click

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, url_option
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues
from bee_core.cli.common.words import count


@click.command(
    short_help="Let no more jobs of a queue be started.",
    epilog=examples("bee pause mail", "bee pause mail films"),
)
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE...")
@url_option
def pause(queues: tuple[str, ...], url: str | None) -> None:
    """Let no more jobs of these queues be started, on any worker.

    Running jobs end, jobs can be sent, delays go on. It lasts until bee resume, also if all workers
    are started anew.

    \b
    Exit codes:
      0  paused, now or before
      1  there is no such queue, and nothing was changed
      2  wrong use
      3  the store does not answer, or refuses
    """

    async def go(store: Store) -> None:
        await check_queues(store, queues)
        for queue in dict.fromkeys(queues):
            stats = await store.stats(queue)
            await store.pause(queue)
            before = "was paused already" if stats.paused else "paused"
            running = f"; {count(stats.leased, 'job')} still running" if stats.leased else ""
            click.echo(f"{queue}: {before}{running}")

    ask(url, go)


@click.command(
    short_help="Let the jobs of a paused queue be started again.",
    epilog=examples("bee resume mail", "bee resume mail films"),
)
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE...")
@url_option
def resume(queues: tuple[str, ...], url: str | None) -> None:
    """Let the jobs of these queues be started again, at once.

    \b
    Exit codes:
      0  they are not paused, now or before
      1  there is no such queue, and nothing was changed
      2  wrong use
      3  the store does not answer, or refuses
    """

    async def go(store: Store) -> None:
        await check_queues(store, queues)
        for queue in dict.fromkeys(queues):
            stats = await store.stats(queue)
            await store.resume(queue)
            before = "resumed" if stats.paused else "was not paused"
            click.echo(f"{queue}: {before}; {count(stats.ready, 'job')} ready")

    ask(url, go)
