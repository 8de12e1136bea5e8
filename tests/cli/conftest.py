"""A place without settings, and the command: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner, Result

from bee_core.cli import main
from bee_core.ids import new_id
from tests.servers import PgServer, RedisServer
from tests.stores.pg_migrations.support import apply_now

ROOT = Path(__file__).parents[2]

Bee = Callable[..., Result]
Ended = subprocess.CompletedProcess[str]


class RunBee(Protocol):
    """`run_bee("info", "--url", url)`: what came of it, as `returncode`, `stdout`, `stderr`."""

    def __call__(
        self, *words: str, input: str | None = None, env: Mapping[str, str] | None = None
    ) -> Ended: ...


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("BEE_") and "TEST" not in name]:
        monkeypatch.delenv(name)


@pytest.fixture
def bee() -> Bee:
    """Type `bee ...`. An exception that is not an exit fails the test."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return run


@pytest.fixture
def run_bee() -> RunBee:
    """Type `bee ...` in a process of its own, in the current directory, without a terminal.

    `input` is what it reads from standard input; otherwise that is empty.
    """

    def run(*words: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Ended:
        return subprocess.run(
            bee_command(*words),
            input="" if input is None else input,
            capture_output=True,
            text=True,
            timeout=60,
            env=bee_environment() | (env or {}),
        )

    return run


def bee_command(*words: str) -> list[str]:
    """The words for a process. As for an installed script, the current directory is no place of
    modules, until the command itself says so."""
    return [sys.executable, "-P", "-m", "bee_core.cli", *words]


def bee_environment() -> dict[str, str]:
    """That of this process, with the packages of this checkout first."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}


@pytest.fixture
def valkey_url(valkey: RedisServer) -> str:
    """Of a real Valkey, empty: a prefix of its own."""
    return f"{valkey.url}?prefix={new_id()}"


@pytest.fixture
def pg_url(pg: PgServer) -> str:
    """Of a real PostgreSQL, empty: a database of its own, with bee's schema in it."""
    url = pg.database()
    apply_now(url)
    return url


@pytest.fixture(params=["valkey_url", "pg_url"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Of each real server, empty and ready for use."""
    url: str = request.getfixturevalue(request.param)
    return url
