"""What the tests of `bee_core.sync` share: a store by URL."""

from __future__ import annotations

import pytest

from tests.worker.support import new_store


@pytest.fixture(params=["memory", "valkey", "pg"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty store, on every backend."""
    return new_store(request, request.param)


@pytest.fixture(params=["valkey", "pg"])
def shared_url(request: pytest.FixtureRequest) -> str:
    """An empty store that several processes can use."""
    return new_store(request, request.param)
