"""`bee cancel`: jobs that shall not run, or not go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from bee_core.broker import Store
from bee_core.cli.common.acting import (
    CHANGED,
    UNKNOWN,
    Deed,
    Missed,
    act_on_ids,
    act_on_matches,
    order_of,
    sure_options,
)
from bee_core.cli.common.asking import ask, url_option
from bee_core.cli.common.errors import WrongUse
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues, filter_options
from bee_core.disposition import Archive, Delete, Terminal
from bee_core.stored import State, Stored

_WAITING = (State.DELAYED, State.READY, State.BLOCKED)
"""As time moves them, so that what becomes due meanwhile is met."""


@click.command(
    short_help="Cancel jobs that wait, and if you say so those that run.",
    epilog=examples(
        "bee cancel mail order-4711",
        "bee cancel mail order-4711 --even-running",
        "bee cancel mail --kind newsletter --delete",
        "bee cancel mail --state delayed --dry-run",
        "bee cancel mail -- -an-id-with-a-dash-",
    ),
)
@click.argument("queue")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--state",
    type=click.Choice(["ready", "delayed", "leased", "blocked"]),
    metavar="STATE",
    help="ready, delayed, leased or blocked: only those.",
)
@filter_options
@click.option("--even-running", is_flag=True, help="Also jobs that run. Otherwise they go on.")
@click.option(
    "--archive/--delete", default=True, help="Keep them in the archive (default), or not."
)
@sure_options
@url_option
def cancel(
    queue: str,
    ids: tuple[str, ...],
    state: str | None,
    even_running: bool,
    archive: bool,
    url: str | None,
    **options: Any,
) -> None:
    """Cancel jobs that wait. Running ones go on, unless you say --even-running.

    Give ids, filters, or --all. They are archived as "cancelled", from where bee retry brings them
    back, or with --delete are gone. With --even-running the worker stops a running job when it next
    renews the lease, within ten seconds or so. Filters leave schedules alone, unless you say
    --kind schedule.

    \b
    Exit codes:
      0  done, or nothing to do
      1  some were not cancelled, and it says why; or there is no such queue
      2  wrong use; also: nobody to ask, and no -y
      3  the store does not answer, or refuses
    """
    order = order_of(queue, ids, options, narrowed=state is not None)
    if state == "leased" and not even_running:
        raise WrongUse("leased jobs run: to cancel them say --even-running, too")
    to: Terminal = Archive() if archive else Delete()
    deed = Deed("cancel", "cancelled", "live job" if even_running else "waiting job")

    async def go(store: Store) -> int:
        await check_queues(store, [queue])

        async def stop(chosen: Sequence[str], running: bool) -> Missed:
            missed = await store.cancel(queue, chosen, to=to, running=running)
            return [(id, _why(await store.get(queue, id))) for id in chosen if id in missed]

        async def stop_named(chosen: Sequence[str]) -> Missed:
            blocked = not even_running and (await store.stats(queue)).blocked
            missed = await stop(chosen, even_running)
            for id in await _running(store, queue, chosen) if blocked else ():
                if id not in dict(missed):
                    click.echo(f"{id}: runs on; what was to follow it is cancelled", err=True)
            return missed

        async def stop_found(found: Sequence[Stored]) -> Missed:
            running = even_running and found[0].state is not State.BLOCKED
            return await stop([one.id for one in found], running)

        if order.ids:
            return await act_on_ids(deed, order, stop_named)
        states = _states(state, even_running)
        return await act_on_matches(deed, order, store, states, stop_found, own=False)

    raise SystemExit(ask(url, go))


def _states(state: str | None, even_running: bool) -> Sequence[State]:
    if state is not None:
        return [State(state)]
    return [*_WAITING, State.LEASED] if even_running else _WAITING


async def _running(store: Store, queue: str, ids: Sequence[str]) -> list[str]:
    found = [await store.get(queue, id) for id in ids]
    return [one.id for one in found if one is not None and one.state is State.LEASED]


def _why(stored: Stored | None) -> str:
    """Why it was not cancelled."""
    if stored is None:
        return UNKNOWN
    if stored.state is State.LEASED:
        return f"runs on {stored.holder or '?'}: --even-running cancels it, too"
    if stored.leased_at is not None:
        return "was running on a worker that is silent: --even-running cancels it, too"
    if stored.state is State.ARCHIVED:
        return "over already, and in the archive: bee delete removes it from there"
    return CHANGED
