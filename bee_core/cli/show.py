"""`bee show`: everything about one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.asking import ask, json_option, print_json, url_option
from bee_core.cli.common.errors import NotThere, WrongUse
from bee_core.cli.common.examples import examples
from bee_core.cli.common.policies import policy_of, policy_words
from bee_core.cli.common.selecting import check_queues
from bee_core.cli.common.words import count, many_lines, one_line
from bee_core.cli.list import plain
from bee_core.codec import kind_of
from bee_core.explain import Ended, Explanation, NotFound, past, sentence, when
from bee_core.explain import explain as explain_job
from bee_core.message import Counters
from bee_core.queue import POLICY_HEADER
from bee_core.stored import Stored
from bee_core.text import escaped

_ONE = {"deliveries": "delivery"}
_LARGEST = 64 * 1024
"""More of a body is not shown; --body has all of it."""


@click.command(
    short_help="Show everything about one job.",
    epilog=examples(
        "bee show mail order-4711",
        "bee show mail order-4711 --body | jq .job",
        "bee show mail order-4711 --json | jq -r .note.detail",
    ),
)
@click.argument("queue")
@click.argument("id")
@click.option("--body", is_flag=True, help="Its body and nothing else, byte for byte.")
@url_option
@json_option
def show(queue: str, id: str, body: bool, url: str | None, as_json: bool) -> None:
    """Show everything about one job: what it carries, where it is, and what has happened to it.

    Of an id that is live that one; otherwise the one that was archived last. Changes nothing.

    \b
    Exit codes:
      0  the store knows the job
      1  it does not
      2  wrong use
      3  the store does not answer, or refuses
    """
    if body and as_json:
        raise WrongUse("give --body or --json: --json has the body in it")

    async def look(store: Store) -> Explanation:
        found = await explain_job(store, queue, id)
        if isinstance(found.why, NotFound):
            await check_queues(store, [queue])
        return found

    found = ask(url, look)
    stored = found.stored
    if stored is None:
        _show_end(found, body, as_json)
    elif body:
        click.echo(stored.body, nl=False)
    elif as_json:
        print_json(_plain(found, stored))
    else:
        for line in _lines(found, stored):
            click.echo(line)


def _show_end(found: Explanation, body: bool, as_json: bool) -> None:
    """What is left of a job that the queue no longer holds: its result, or nothing."""
    if not isinstance(found.why, Ended) or body:
        raise NotThere(_title(found))
    report = found.why.report
    if as_json:
        shown = {"queue": found.queue, "id": found.id, "state": None, "note": report.note}
        print_json(shown | {"result": _value(report.result) if report.result else None})
        return
    click.echo(_title(found))
    for line in _indented(report.note.detail):
        click.echo(line)
    if report.result:
        click.echo("\nresult")
        for line in _body_lines(report.result):
            click.echo(line)


def _lines(found: Explanation, stored: Stored) -> Iterator[str]:
    yield _title(found)
    yield ""
    facts = list(_facts(stored))
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        yield f"{name:<{width}}  {text}"
    yield from _section("policy it was sent with", _policy_lines(stored))
    headers = {name: text for name, text in stored.headers.items() if name != POLICY_HEADER}
    shown = (f"  {one_line(name)}: {one_line(text, 500)}" for name, text in headers.items())
    yield from _section("headers", shown)
    yield from _section("body", _body_lines(stored.body))
    if stored.note is not None:
        yield from _section(f"note: {stored.note.reason}", _indented(stored.note.detail))
    yield from _section("history", (many_lines(line) for line in past(stored)))


def _title(found: Explanation) -> str:
    return escaped(f"{found.id} in {found.queue}: {sentence(found.why)}")


def _facts(stored: Stored) -> Iterator[tuple[str, str]]:
    yield "kind", one_line(kind_of(stored.headers, stored.body) or "? (not a job of bee's codec)")
    yield "state", stored.state.value
    yield "priority", str(stored.priority)
    yield "sent", when(stored.sent_at)
    yield "due", when(stored.due_at)
    if stored.leased_at is not None:
        until = "" if stored.leased_until is None else f", lease until {when(stored.leased_until)}"
        yield "leased", f"{when(stored.leased_at)}{until}"
    if stored.holder is not None:
        yield "holder", one_line(stored.holder)
    if stored.archived_at is not None:
        yield "archived", when(stored.archived_at)
    yield "counters", _counted(stored.counters)
    if stored.progress is not None:
        yield "progress", one_line(stored.progress)
    if stored.key is not None:
        yield "key", one_line(stored.key)
    if stored.awaits:
        yield "awaits", count(stored.awaits, "report")
    if stored.reports_to is not None:
        yield "reports to", one_line(stored.reports_to)
    yield "incarnation", str(stored.incarnation)


def _counted(counters: Counters) -> str:
    """`3 deliveries, 2 errors`; what is zero is left out, but for the first."""
    found = msgspec.structs.asdict(counters)
    return ", ".join(
        f"{number} {_ONE.get(name, name.removesuffix('s')) if number == 1 else name}"
        for name, number in found.items()
        if number or name == "deliveries"
    )


def _policy_lines(stored: Stored) -> Iterator[str]:
    if POLICY_HEADER not in stored.headers:
        return
    try:
        policy = policy_of(stored.headers)
    except Exception:  # total, whatever somebody has put there
        yield f"  cannot be read: {one_line(stored.headers[POLICY_HEADER])}"
        return
    for name, words in policy_words(policy):
        yield f"  {name:<12}  {words}"
    yield "  the rest is up to its class, its queue and its hive"


def _body_lines(body: bytes) -> Iterator[str]:
    """As JSON if it is JSON; or else as Python would write the bytes."""
    value = _value(body)
    text = repr(body) if isinstance(value, bytes) else msgspec.json.format(body, indent=2).decode()
    yield from _indented(text[:_LARGEST])
    if len(text) > _LARGEST:
        yield f"  ... {count(len(body), 'byte')} in all: --body shows them"


def _value(body: bytes) -> msgspec.Raw | bytes:
    """The body as a part of JSON; as bytes if it is none."""
    try:
        msgspec.json.decode(body)
    except Exception:  # total, whatever the bytes: RecursionError, UnicodeError, ...
        return body
    return msgspec.Raw(body)


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield title
        yield from found


def _indented(text: str) -> Iterator[str]:
    for line in many_lines(text).splitlines():
        yield f"  {line}"


def _plain(found: Explanation, stored: Stored) -> dict[str, Any]:
    """All of it: the body as it is if it is JSON, or else as `body64`, as in an export."""
    value = _value(stored.body)
    as_json = isinstance(value, msgspec.Raw)
    return plain(found.queue, stored) | {
        "why": {"kind": type(found.why).__name__, "text": sentence(found.why)},
        "body": value if as_json else None,
        "body64": None if as_json else stored.body,
        "headers": dict(stored.headers),
        "awaits": stored.awaits,
        "reports_to": stored.reports_to,
        "leased_until": stored.leased_until,
        "remark": stored.remark,
        "note": stored.note,
        "history": stored.history,
    }
