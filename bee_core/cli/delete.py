"""`bee delete`: archived jobs, for ever."""

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
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues, filter_options
from bee_core.stored import State, Stored

_DEED = Deed("delete", "deleted", "archived job")


@click.command(
    short_help="Delete archived jobs for ever.",
    epilog=examples(
        "bee delete mail order-4711",
        "bee delete mail --reason cancelled",
        "bee delete mail --fingerprint 5f0c9a1b --dry-run",
        "bee delete mail - < ids.txt",
    ),
)
@click.argument("queue")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filter_options
@sure_options
@url_option
def delete(
    queue: str,
    ids: tuple[str, ...],
    url: str | None,
    **options: Any,
) -> None:
    """Delete archived jobs for ever: exactly those, nothing that is live.

    Give ids, filters, or --all. An id stands for all that was archived under it. With filters they
    are counted first, and you are asked. To keep an archive small, bee purge --archive is quicker.

    \b
    Exit codes:
      0  done, or nothing to do
      1  some were not deleted, and it says why; or there is no such queue
      2  wrong use; also: nobody to ask, and no -y
      3  the store does not answer, or refuses
    """
    order = order_of(queue, ids, options)

    async def go(store: Store) -> int:
        await check_queues(store, [queue])

        async def expel(found: Sequence[Stored]) -> Missed:
            return [(one.id, CHANGED) for one in await store.expel(queue, found)]

        async def expel_named(chosen: Sequence[str]) -> Missed:
            return [(id, why) for id in chosen if (why := await _expel_all(store, queue, id))]

        if order.ids:
            return await act_on_ids(_DEED, order, expel_named)
        return await act_on_matches(_DEED, order, store, [State.ARCHIVED], expel)

    raise SystemExit(ask(url, go))


async def _expel_all(store: Store, queue: str, id: str) -> str | None:
    """Delete all that was archived under an id; return why that was not done."""
    begun = False
    while (stored := await store.get(queue, id)) is not None:
        if stored.state is not State.ARCHIVED:
            live = f"live ({stored.state.value}), so it was left alone: bee cancel is for those"
            return None if begun else live
        if await store.expel(queue, [stored]):
            return CHANGED
        begun = True
    return None if begun else UNKNOWN
