"""`bee explain`: why a job is not running, and what has happened to it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, json_option, print_json, url_option
from bee_core.cli.common.examples import examples
from bee_core.cli.common.selecting import check_queues
from bee_core.explain import Explanation, NotFound, sentence
from bee_core.explain import explain as explain_job
from bee_core.text import escaped


@click.command(
    short_help="Say why a job is not running, and what has happened to it.",
    epilog=examples(
        "bee explain mail 0199f6c1-7a10-7c3e-8a4e-0d5a3f1b2c3d",
        "bee explain mail order-4711 --url postgresql://localhost/shop",
        "bee explain mail order-4711 --json | jq .why",
    ),
)
@click.argument("queue")
@click.argument("id")
@url_option
@json_option
def explain(queue: str, id: str, url: str | None, as_json: bool) -> None:
    """Say why a job is not running, or who runs it, and what has happened to it.

    Looks at the store and changes nothing. A job that is done and deleted has left no trace.

    \b
    Exit codes:
      0  the store knows the job
      1  it does not, or there is no such queue
      2  wrong use
      3  the store does not answer, or refuses
    """

    async def look(store: Store) -> Explanation:
        found = await explain_job(store, queue, id)
        if isinstance(found.why, NotFound):
            await check_queues(store, [queue])
        return found

    found = ask(url, look)
    if as_json:
        print_json(_plain(found))
    else:
        click.echo("\n".join(map(escaped, str(found).split("\n"))))
    raise SystemExit(1 if isinstance(found.why, NotFound) else 0)


def _plain(found: Explanation) -> dict[str, Any]:
    """Without the body, which may be large, and nobody's business."""
    why = {"kind": type(found.why).__name__, "text": sentence(found.why)}
    stored = found.stored
    return {
        "queue": found.queue,
        "id": found.id,
        "why": why | msgspec.to_builtins(found.why, builtin_types=(bytes,)),
        "state": None if stored is None else stored.state.value,
        "counters": None if stored is None else stored.counters,
        "sent_at": None if stored is None else stored.sent_at,
        "due_at": None if stored is None else stored.due_at,
        "history": found.history,
    }
