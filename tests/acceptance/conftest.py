"""The wheel, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.wheel import build_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of what is in the repository now."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))
