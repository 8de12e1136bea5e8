"""A place without settings, and the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bee_core.cli import main

Bee = Callable[..., Result]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEE_URL", raising=False)


@pytest.fixture
def bee() -> Bee:
    """Type `bee ...`. An exception that is not an exit fails the test."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return run
