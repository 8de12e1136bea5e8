"""A service for each test, on a server that all share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import RedisServer

from .support import Service


@pytest.fixture
def service(valkey: RedisServer, tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, valkey.url)
    yield service
    service.clean_up()
