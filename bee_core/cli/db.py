"""`bee db`: the schema in a PostgreSQL database, looked at and brought up to date.

What it does is in `bee_pg`; here are only the words. That package, and with it the driver, is
loaded when a command runs and not before, so help needs neither.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from bee_core.cli.common.asking import json_option, url_saying
from bee_core.cli.common.errors import CannotAsk
from bee_core.cli.common.examples import examples
from bee_core.cli.common.units import as_seconds
from bee_core.config import broker_url
from bee_core.errors import BeeError, BrokerError, SchemaMismatch, SchemaMissing
from bee_core.url import Url, redact

_SCHEMES = ("postgresql", "postgres")


def _options(command: Callable[..., None]) -> Callable[..., None]:
    url = "The database. Otherwise BEE_URL, or that of bee.toml."
    schema = "The schema bee's tables are in. Otherwise the URL's, or bee."
    command = click.option("--schema", metavar="NAME", help=schema)(command)
    return url_saying(url)(command)


@click.group(
    short_help="Create and upgrade bee's schema in PostgreSQL.",
    epilog=examples(
        "bee db check                         is all as it should be?",
        "bee db plan                          what would be done?",
        "bee db apply                         do it",
        "bee db sql > bee.sql                 or let somebody else do it, with psql",
        "bee db apply --url postgresql://ada@localhost/shop --schema jobs",
    ),
)
def db() -> None:
    """Create and upgrade bee's schema in a PostgreSQL database.

    \b
    Exit codes:
      0  fine
      1  the schema is not the one that this bee needs
      2  wrong use: an unknown option, a URL that is not PostgreSQL's
      3  the database cannot be reached, or it refuses; or psycopg is missing
    """


@db.command(
    epilog=examples(
        "bee db plan",
        "bee db plan --url postgresql://ada@localhost/shop",
        "bee db plan --json | jq .steps",
    )
)
@_options
@json_option
def plan(url: str | None, schema: str | None, as_json: bool) -> None:
    """Say what `bee db apply` would do, and do nothing.

    \b
    Exit codes:
      0  whether there is something to do or not
      1  the schema is newer than this bee
      2  wrong use
      3  the database cannot be reached, or it refuses
    """
    with _errors():
        database = _database(url, schema)
        found = asyncio.run(database.installed())
        migrate = _backend("migrate")
        if found is not None and found.version > migrate.latest().version:
            migrate.check_installed(found, database.schema, None)
        steps = [name for name, _ in migrate.steps(found)]
    if as_json:
        _print_json(_state(database, found) | {"steps": steps})
        return
    if not steps:
        click.echo(f"nothing to do: {_standing(database, found)}")
        return
    click.echo(_standing(database, found))
    for step in steps:
        click.echo(f"would {_deed(step, found)}")
    click.echo(f"run: {_command(database, url)}")


@db.command(
    epilog=examples(
        "bee db apply",
        "bee db apply --url postgresql://ada@localhost/shop",
        "bee db apply --schema jobs --wait 5m",
    )
)
@_options
@click.option(
    "--wait",
    callback=as_seconds,
    default="30s",
    metavar="TIME",
    help="How long to try if others hold locks: 30s.",
)
def apply(url: str | None, schema: str | None, wait: float) -> None:
    """Create the schema, or bring it up to date: all of it, or nothing.

    May run while workers do, as often as you like, and from many places at once. It waits for no
    lock of a table longer than two seconds at a time, so nobody has to queue behind it for long.

    \b
    Exit codes:
      0  done, or nothing to do
      1  the schema is newer than this bee
      2  wrong use
      3  the database cannot be reached, or it refuses: rights, locks
    """
    if not 0.1 <= wait <= 86_400:
        raise click.UsageError("--wait is 0.1s at least, and a day at most")
    with _errors():
        database = _database(url, schema)
        done = asyncio.run(database.apply(report=_say_step, patience=wait))
        version = _backend("migrate").latest().version
    at = f"schema {database.schema!r} is at version {version}"
    click.echo(f"done: {at}" if done else f"nothing to do: {at}")


@db.command(
    epilog=examples(
        "bee db sql > bee.sql && psql -v ON_ERROR_STOP=1 -f bee.sql shop",
        "bee db sql --schema jobs",
        "bee db sql --url postgresql://ada@localhost/shop > upgrade.sql",
    )
)
@_options
def sql(url: str | None, schema: str | None) -> None:
    """Print what `bee db apply` would run, as a script for psql.

    Without --url it is the script for a database that has nothing yet, and none is asked. With
    --url it is what that database lacks. The script is one transaction, and checks first that it is
    run on what it was made for.

    \b
    Exit codes:
      0  fine
      1  the schema is newer than this bee
      2  wrong use
      3  the database cannot be reached, or it refuses
    """
    with _errors():
        migrate = _backend("migrate")
        if url is None:
            text = migrate.script(_schema_without_a_database(schema))
        else:
            database = _database(url, schema)
            found = asyncio.run(database.installed())
            if found is not None and found.version > migrate.latest().version:
                migrate.check_installed(found, database.schema, None)
            text = migrate.script(database.schema, found)
    click.echo(text, nl=False)


@db.command(
    short_help="Say whether the schema is what this bee needs.",
    epilog=examples(
        "bee db check",
        "bee db check || bee db apply",
        "bee db check --json | jq -r .problem",
    ),
)
@_options
@json_option
def check(url: str | None, schema: str | None, as_json: bool) -> None:
    """Say whether the schema is what this bee needs, and if not, what to run.

    \b
    Exit codes:
      0  it is
      1  it is missing, older, newer, or has the functions of another bee
      2  wrong use
      3  the database cannot be reached, or it refuses
    """
    with _errors():
        database = _database(url, schema)
        found = asyncio.run(database.installed())
        problem = _problem(database, found, url)
    if as_json:
        _print_json(_state(database, found) | {"ok": problem is None, "problem": problem})
    elif problem is None:
        click.echo(f"fine: {_standing(database, found)}")
    else:
        click.echo(problem)
    raise SystemExit(0 if problem is None else 1)


# Reaching the database.


def _database(url: str | None, schema: str | None) -> Any:
    """The database that is meant; wrong use if it is not PostgreSQL."""
    address = Url(broker_url(url))
    if address.scheme not in _SCHEMES:
        whose = "The configured URL" if url is None else "--url"
        raise click.UsageError(
            f"bee db is for PostgreSQL. {whose} is {redact(address.text)}: give --url "
            "postgresql://..., or set BEE_URL, or url in bee.toml"
        )
    return _backend("database").Database(address.text, schema)


def _schema_without_a_database(schema: str | None) -> str:
    """The schema that is given, or that of the configured URL, if it is one of PostgreSQL's."""
    configured = Url(broker_url())
    text = configured.text if configured.scheme in _SCHEMES else "postgresql://"
    name: str = _backend("database").Database(text, schema).schema
    return name


def _backend(module: str) -> Any:
    try:
        return import_module(f"bee_pg.{module}")
    except ImportError as error:
        need = 'psycopg is needed: pip install "bee-jobs[pg]"'
        raise CannotAsk(f"{need} ({error})") from error


@contextmanager
def _errors() -> Iterator[None]:
    """bee's errors as messages with exit codes."""
    try:
        yield
    except (SchemaMissing, SchemaMismatch) as error:
        raise click.ClickException(str(error)) from error  # exit code 1
    except BrokerError as error:
        raise CannotAsk(str(error)) from error
    except BeeError as error:
        raise click.UsageError(str(error)) from error


# In words.


def _problem(database: Any, found: Any, url: str | None) -> str | None:
    """What is wrong and what to run; None if nothing is."""
    migrate = _backend("migrate")
    try:
        migrate.check_installed(found, database.schema, _shown(database, url))
    except (SchemaMissing, SchemaMismatch) as error:
        return str(error)
    if found == migrate.latest():
        return None
    return (
        f"schema {database.schema!r} is at version {found.version}, but its functions are those "
        f"of another bee. Run: {_command(database, url)}"
    )


def _standing(database: Any, found: Any) -> str:
    if found is None:
        return f"schema {database.schema!r} is not there yet"
    return f"schema {database.schema!r} is at version {found.version}"


def _deed(step: str, found: Any) -> str:
    if step != _backend("migrate").FUNCTIONS:
        return f"apply {step}"
    return "write the functions" if found is None else "write the functions anew"


def _say_step(step: str) -> None:
    if step == _backend("migrate").FUNCTIONS:
        click.echo("writing the functions")
    elif step[:1].isdigit():
        click.echo(f"applying {step}")
    else:
        click.echo(step)


def _command(database: Any, url: str | None) -> str:
    text: str = _backend("migrate").how_to_apply(database.schema, _shown(database, url))
    return text


def _shown(database: Any, url: str | None) -> str | None:
    """The URL to repeat; none if the next command will find the same by itself."""
    found_again = url is None and database.schema == database.schema_of_url
    return None if found_again else str(database.shown)


def _state(database: Any, found: Any) -> dict[str, object]:
    wanted = _backend("migrate").latest()
    return {
        "schema": database.schema,
        "version": None if found is None else found.version,
        "wanted_version": wanted.version,
        "functions": None if found is None else found.functions,
        "wanted_functions": wanted.functions,
    }


def _print_json(value: dict[str, object]) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
