"""A service for each test, on a server that all share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bee_core.cli import main
from tests.cli.conftest import Bee
from tests.servers import RedisServer

from .support import Service


@pytest.fixture
def service(valkey: RedisServer, tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, valkey.url)
    yield service
    service.clean_up()


@pytest.fixture
def bee_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bee:
    """Type `bee ...` in a place without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEE_URL", raising=False)

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return run
