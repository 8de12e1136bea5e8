"""Runs what ought to notice a bug, until it does: the conformance suite, or tests of the worker."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass

from bee_core.errors import BrokerError
from bee_core.ids import new_id
from bee_core.testing.conformance import Harness
from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.conformance.runner import Bound, failures_of
from tests.conformance.test_pg import PgHarness
from tests.conformance.test_redis import RedisHarness
from tests.planted.bug import ROOT, Bug
from tests.planted.plant import planted_in_lua, planted_in_sql

GUARD = 10.0
"""Real seconds for one test: the slowest of the suite take three on a busy machine."""
LONGEST = 60.0
"""Seconds after which a bug has not been noticed."""


@dataclass(frozen=True)
class Caught:
    """What noticed a bug, how, and after how many seconds."""

    by: str
    error: str
    seconds: float


def on_redis(bug: Bug, url: str) -> Caught | None:
    """The first test that notices a bug in a script."""

    @asynccontextmanager
    async def harness() -> AsyncIterator[Harness]:
        async with RedisBroker(url, prefix=f"bug-{new_id()}", check=False) as broker:
            yield RedisHarness(broker)

    return _conformance(bug, planted_in_lua, Bound(harness))


def on_pg(bug: Bug, url: str) -> Caught | None:
    """The first test that notices a bug in a function."""
    schema = f"bug_{new_id()[-12:]}"

    @asynccontextmanager
    async def harness() -> AsyncIterator[Harness]:
        async with PgBroker(url, schema=schema, migrate=True) as broker:
            yield PgHarness(broker)

    return _conformance(bug, planted_in_sql, Bound(harness))


def in_worker(bug: Bug) -> Caught | None:
    """The first test that notices a bug in the worker, in a process of its own."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.planted.child", bug.name]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return None
    seconds = time.monotonic() - began
    if ended.returncode == 0:
        return None
    noticed = re.search(r"^FAILED \S+::(\w+)(.*)", ended.stdout, re.MULTILINE)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert noticed, ended.stdout
    return Caught(noticed[1], noticed[2].removeprefix(" - "), seconds)


def _conformance(
    bug: Bug, plant: Callable[[Bug], AbstractContextManager[None]], suite: Bound
) -> Caught | None:
    began = time.monotonic()
    with plant(bug):
        for name, error in failures_of(suite, bug.proof, guard=GUARD, until=began + LONGEST):
            assert not isinstance(error, BrokerError), (
                f"{bug.name} is no bug but a mistake: {error}"
            )
            return Caught(name, _line(error), time.monotonic() - began)
    return None


def _line(error: BaseException) -> str:
    return repr(error).replace("\n", " ")[:200]
