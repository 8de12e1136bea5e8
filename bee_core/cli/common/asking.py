"""What commands that ask a store have in common: which one, and in which form they answer."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from bee_core.broker import Store
from bee_core.cli.common.errors import WrongUse, told_plainly
from bee_core.config import URL_VARIABLE, broker_url, read_settings
from bee_core.errors import BrokerUnavailable
from bee_core.hive import Hive
from bee_core.registry import backend, connect
from bee_core.url import UrlText, redact

Command = TypeVar("Command", bound=Callable[..., None])
T = TypeVar("T")


_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]")

IN_MEMORY = (
    "memory:// lives inside one process, and this is another one, which would find it empty: give "
    "--url, or set BEE_URL, or url in bee.toml"
)


def url_saying(told: str) -> Callable[[Command], Command]:
    """`--url`, with these words in the help. Its password is in no repr, so in no traceback."""
    return click.option("--url", type=UrlText, metavar="URL", help=told)


url_option = url_saying("The broker. Otherwise BEE_URL, or that of bee.toml.")
program_url_option = url_saying("The broker. Otherwise what the program says.")


def json_option(command: Command) -> Command:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")(command)


def ask(url: str | None, question: Callable[[Store], Awaitable[T]]) -> T:
    """Ask the store that is meant; what goes wrong is one sentence and an exit code."""

    async def go(found: str) -> T:
        async with connect(found) as store:
            return await question(store)

    with told_plainly():
        found = broker_url(url)
        if is_memory(found):
            raise WrongUse(IN_MEMORY)
        try:
            return asyncio.run(go(found))
        except BrokerUnavailable as error:
            asked = f"{redact(found)}, by {_who_says(url)}"
            raise BrokerUnavailable(f"{error} ({asked})") from error


def _who_says(url: str | None) -> str:
    """Where the URL is from that is used."""
    if url is not None:
        return "--url"
    return URL_VARIABLE if os.environ.get(URL_VARIABLE) else read_settings().url_source


def ask_hive(hive: Hive, url: str | None, question: Callable[[Store], Awaitable[T]]) -> T:
    """The same for the store of a program; `url` is another one, if it is given."""

    async def go() -> T:
        async with hive:
            return await question(hive.broker)

    with told_plainly():
        use_store(hive, url)
        return asyncio.run(go())


def use_store(hive: Hive, url: str | None) -> None:
    """Let a program's hive use another store, if one is given; its own memory is wrong use."""
    hive.adjust(url=url)
    if isinstance(hive.broker, backend("memory")):
        raise WrongUse(IN_MEMORY)


def is_memory(url: str) -> bool:
    """Whether a URL names the memory of one process, where no other can look."""
    return url.partition(":")[0] == "memory"


def print_json(value: Any) -> None:
    """One JSON value on one line, in UTF-8; bytes are base64, as JSON cannot hold them.

    JSON need not escape the control characters from 127 to 159, but terminals obey them.
    """
    line = msgspec.json.encode(value)
    click.echo(_CONTROLS.sub(lambda found: b"\\u00%02x" % found[0][-1], line))
