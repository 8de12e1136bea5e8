"""`bee retry`: archived jobs back into their queue."""

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

_DEED = Deed("retry", "retried", "archived job")


@click.command(
    short_help="Move archived jobs back into their queue.",
    epilog=examples(
        "bee retry mail order-4711 order-4712",
        "bee retry mail --reason timed_out --since 1h",
        "bee retry mail --fingerprint 5f0c9a1b --dry-run",
        "bee retry mail --all -y",
        "bee list mail --json --error Timeout | jq -r .id | bee retry mail -",
    ),
)
@click.argument("queue")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filter_options
@sure_options
@url_option
def retry(
    queue: str,
    ids: tuple[str, ...],
    url: str | None,
    **options: Any,
) -> None:
    """Move archived jobs back into their queue: ready now, counters at zero.

    Give ids, filters, or --all. Of an id that was archived several times the last one is meant.
    With filters they are counted first, and you are asked. What fails again meanwhile is not
    retried twice in one run.

    \b
    Exit codes:
      0  done, or nothing to do
      1  some were not retried, and it says why; or there is no such queue
      2  wrong use; also: nobody to ask, and no -y
      3  the store does not answer, or refuses
    """
    order = order_of(queue, ids, options)

    async def go(store: Store) -> int:
        await check_queues(store, [queue])

        async def restore(chosen: Sequence[str]) -> Missed:
            missed = await store.restore(queue, chosen)
            return [(id, _why(await store.get(queue, id))) for id in chosen if id in missed]

        async def restore_found(found: Sequence[Stored]) -> Missed:
            return await restore([one.id for one in found])

        if order.ids:
            return await act_on_ids(_DEED, order, restore)
        states = [State.ARCHIVED]
        return await act_on_matches(_DEED, order, store, states, restore_found, last_lives=True)

    raise SystemExit(ask(url, go))


def _why(stored: Stored | None) -> str:
    """Why it was not restored."""
    if stored is None:
        return UNKNOWN
    if stored.state is State.ARCHIVED:
        return CHANGED
    return f"live already ({stored.state.value}), so there is nothing to retry"
