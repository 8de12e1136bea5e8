"""`bee explain`: why a job is not running, and what has happened to it."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from bee_core.cli.examples import examples
from bee_core.cli.loading import WrongUse
from bee_core.config import broker_url
from bee_core.errors import BeeError, InvalidInput, UnknownScheme
from bee_core.explain import Explanation, NotFound, sentence
from bee_core.explain import explain as explain_job
from bee_core.registry import connect


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
@click.option("--url", metavar="URL", help="The broker. Otherwise BEE_URL, or that of bee.toml.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def explain(queue: str, id: str, url: str | None, as_json: bool) -> None:
    """Say why a job is not running, or who runs it, and what has happened to it.

    Looks at the store and changes nothing. A job that is done and deleted has left no trace.

    \b
    Exit codes:
      0  the store knows the job
      1  it does not, or does not answer
      2  wrong use
    """
    try:
        found = asyncio.run(_ask(url, queue, id))
    except (InvalidInput, UnknownScheme) as error:
        raise WrongUse(str(error)) from error
    except (BeeError, ImportError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(msgspec.json.encode(_plain(found)).decode() if as_json else str(found))
    raise SystemExit(1 if isinstance(found.why, NotFound) else 0)


async def _ask(url: str | None, queue: str, id: str) -> Explanation:
    async with connect(broker_url(url)) as broker:
        return await explain_job(broker, queue, id)


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
