"""After every test: no task and no thread of bee is left."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("bee:")}


def _tasks() -> set[asyncio.Task[object]]:
    """The tasks of this loop, but for the one that looks."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    tasks, threads = _tasks(), _threads()
    yield
    deadline = time.monotonic() + 0.5
    while (_threads() - threads or _tasks() - tasks) and time.monotonic() < deadline:
        await asyncio.sleep(0.001)
    assert set() == _threads() - threads
    assert set() == _tasks() - tasks
