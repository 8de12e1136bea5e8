"""What commands that ask a store have in common: which one, in which form, and what goes wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.loading import WrongUse
from bee_core.config import broker_url
from bee_core.errors import BeeError, BrokerError, InvalidInput, UnknownScheme
from bee_core.hive import Hive
from bee_core.registry import backend, connect
from bee_core.url import UrlText

Command = TypeVar("Command", bound=Callable[..., None])
T = TypeVar("T")


_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")

IN_MEMORY = (
    "memory:// lives inside one process, and this is another one, which would find it empty: give "
    "--url, or set BEE_URL, or url in bee.toml"
)


class CannotAsk(click.ClickException):
    """The store does not answer, or refuses."""

    exit_code = 3


def url_option(command: Command) -> Command:
    """`--url`."""
    told = "The broker. Otherwise BEE_URL, or that of bee.toml."
    return click.option("--url", type=UrlText, metavar="URL", help=told)(command)


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")(command)


def ask(url: str | None, question: Callable[[Store], Awaitable[T]]) -> T:
    """Ask the store that is meant; what goes wrong is one sentence and an exit code."""
    with told_plainly():
        return asyncio.run(_ask(broker_url(url), question))


def ask_hive(hive: Hive, url: str | None, question: Callable[[Store], Awaitable[T]]) -> T:
    """The same for the store of a program; `url` is another one, if it is given."""

    async def go() -> T:
        async with hive:
            return await question(hive.broker)

    with told_plainly():
        hive.adjust(url=url)
        if isinstance(hive.broker, backend("memory")):
            raise WrongUse(IN_MEMORY)
        return asyncio.run(go())


async def _ask(url: str, question: Callable[[Store], Awaitable[T]]) -> T:
    if url.partition(":")[0] == "memory":
        raise WrongUse(IN_MEMORY)
    async with connect(url) as store:
        return await question(store)


@contextmanager
def told_plainly() -> Iterator[None]:
    """bee's errors as one sentence each: 2 for wrong use, 3 for the store's, 1 for others."""
    try:
        yield
    except (InvalidInput, UnknownScheme) as error:
        raise WrongUse(str(error)) from error
    except (BrokerError, ImportError) as error:
        raise CannotAsk(str(error)) from error
    except BeeError as error:
        raise click.ClickException(str(error)) from error


def print_json(value: Any) -> None:
    """One JSON value on one line, in UTF-8; bytes are base64, as JSON cannot hold them.

    JSON need not escape the control characters from 127 to 159, but terminals obey them.
    """
    line = msgspec.json.encode(value)
    click.echo(_CONTROLS.sub(lambda found: b"\\u00%02x" % found[0][-1], line))
