"""Every command that asks a store says in one sentence why it cannot, and changes nothing."""

from __future__ import annotations

import pytest

from tests.servers import PgServer, free_port

from .conftest import Bee, RunBee
from .support import send, states

COMMANDS = [
    ("info", "mail"),
    ("top", "mail", "--once"),
    ("list", "mail"),
    ("show", "mail", "a"),
    ("retry", "mail", "a"),
    ("retry", "mail", "--all", "-y"),
    ("cancel", "mail", "a"),
    ("delete", "mail", "a"),
    ("pause", "mail"),
    ("resume", "mail"),
    ("purge", "mail", "-y"),
    ("purge", "mail", "--drop", "-y"),
]
BY_ID = [("explain", "mail", "a"), ("archive", "export", "mail", "a")]
"""These need no queue of that name to be there: they look for the job."""


def names(words: tuple[str, ...]) -> str:
    return " ".join(words)


@pytest.mark.parametrize("words", [*COMMANDS, *BY_ID, ("doctor",)], ids=names)
def test_no_server(run_bee: RunBee, words: tuple[str, ...]) -> None:
    ended = run_bee(*words, "--url", f"redis://:s3cr3t@127.0.0.1:{free_port()}")

    assert (3, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("Error: cannot reach the server")
    assert "s3cr3t" not in ended.stderr


@pytest.mark.parametrize("words", [*COMMANDS, *BY_ID], ids=names)
def test_no_schema(run_bee: RunBee, pg_without: str, words: tuple[str, ...]) -> None:
    ended = run_bee(*words, "--url", pg_without)

    assert (3, "") == (ended.returncode, ended.stdout)
    assert "no schema 'bee'" in ended.stderr
    assert "bee db apply" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.fixture(scope="module")
def pg_without(pg: PgServer) -> str:
    """A database without bee's schema."""
    return pg.database()


@pytest.mark.parametrize("words", COMMANDS, ids=names)
def test_memory_is_no_store_of_another_process(bee: Bee, words: tuple[str, ...]) -> None:
    ended = bee(*words)

    assert (2, "") == (ended.exit_code, ended.stdout)
    assert "memory:// lives inside one process" in ended.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=names)
def test_a_url_that_is_none(bee: Bee, words: tuple[str, ...]) -> None:
    ended = bee(*words, "--url", "localhost:6379")

    assert (2, "") == (ended.exit_code, ended.stdout)
    assert "known schemes" in ended.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=names)
def test_a_typing_error_changes_nothing(
    run_bee: RunBee, valkey_url: str, words: tuple[str, ...]
) -> None:
    send(valkey_url, "mial", "a")

    ended = run_bee(*words, "--url", valkey_url)

    assert (1, "") == (ended.returncode, ended.stdout)
    assert (
        "Error: no queue 'mail' in this store (do you mean mial?); there are: mial\n"
        == ended.stderr
    )
    assert {"a": "ready"} == states(valkey_url, "mial")


def test_the_schema_is_made_and_checked(run_bee: RunBee, pg: PgServer) -> None:
    url = pg.database()

    before = run_bee("db", "check", "--url", url)
    applied = run_bee("db", "apply", "--url", url)
    after = run_bee("db", "check", "--url", url)

    assert (1, "") == (before.returncode, before.stderr)
    assert "bee db apply" in before.stdout
    assert (0, 0) == (applied.returncode, after.returncode), applied.stderr
    assert after.stdout.startswith("fine: ")


@pytest.mark.parametrize("verb", ["plan", "apply", "check"])
def test_no_database(run_bee: RunBee, verb: str) -> None:
    ended = run_bee("db", verb, "--url", f"postgresql://ada:s3cr3t@127.0.0.1:{free_port()}/shop")

    assert (3, "") == (ended.returncode, ended.stdout)
    assert ended.stderr.startswith("Error: ")
    assert "Traceback" not in ended.stderr
    assert "s3cr3t" not in ended.stderr
