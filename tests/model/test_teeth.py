"""The model test has teeth: whoever breaks a promise is caught, each within a minute.

More bugs, of all kinds, are planted elsewhere; here are some of every part of the model, and all
that let somebody act on a lease that is not his.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from bee_core.testing.model import examine
from bee_core.testing.model.__main__ import main
from bee_memory import MemoryBroker
from bee_pg import PgBroker
from bee_redis import RedisBroker
from bee_redis.scripts import SCRIPTS
from tests.conformance.mutants import MUTANTS
from tests.model.stores import on_memory
from tests.servers import PgServer, RedisServer

NAMED = {kind.__name__: kind for kind in MUTANTS}
CAUGHT = [
    "KeptSaysCreated",
    "DelayIgnored",
    "BatchBackwards",
    "RejectStoresHalf",
    "LastInFirstOut",
    "PriorityInverted",
    "FrontIsTheBack",
    "LeaseDoesNotHide",
    "LeaseNeverRunsOut",
    "StallsNotCounted",
    "TokenAlwaysTheSame",
    "TokensFall",
    "TakeOverForgetsTheSuccessor",
    "ExtendRevivesALostLease",
    "ExtendDoesNothing",
    "ExtendIsTooLateByTheClock",
    "NoTokenCheck",
    "SettleByIdOnly",
    "SettleIsTooLateByTheClock",
    "CountersNotAdded",
    "RepeatIsAtOnce",
    "ThenIsNotSent",
    "RepeatKeepsTheToken",
    "CancelLeavesTheLease",
    "ArchiveLosesTheNote",
    "RestoreKeepsTheCounters",
    "RestoreCopies",
    "UpdateKeepsTheBody",
    "IfLaterIsAlways",
    "SecondUpdateForgetsTheRule",
    "KeysMeanNothing",
    "KeyIsNeverLetGo",
    "ArchivedOneHoldsItsKey",
    "PurgeTakesTheLeased",
    "PauseIgnored",
    "DropLeavesTheArchive",
    "LapsedCountsAsLeased",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mutant", CAUGHT)
def test_the_model_notices(mutant: str) -> None:
    kind: type[MemoryBroker] = NAMED[mutant]

    with pytest.raises(Exception):  # noqa: B017  whatever goes wrong, it has been noticed
        on_memory(kind, runs=300, shrink=False)


LUA = [
    ("settle", "seen[id] or token ~= string.sub(ARGV[2], 8 * i - 7, 8 * i)", "seen[id]"),
    ("settle", "m.token == 0 or text(m.token) ~= ARGV[at + 1]", "m.token == 0"),
    ("settle", "or sub(meta, 1, 8) ~= sub(tokens, 8 * i - 7, 8 * i)", ""),
    ("extend", "token == 0 or text(token) ~= ARGV[i + 1]", "token == 0"),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("verb", "check", "without"), LUA)
def test_a_script_that_does_not_check_the_token_is_caught(
    valkey: RedisServer, verb: str, check: str, without: str
) -> None:
    with _altered(verb, check, without):
        card = examine(
            lambda: RedisBroker(valkey.url, prefix="planted"),
            runs=200,
            steps=50,
            seed=0,
            shrink=False,
        )

    assert card.failure is not None
    assert card.seconds < 60


@pytest.mark.timeout(120)
def test_a_function_that_does_not_check_the_token_is_caught(pg: PgServer) -> None:
    url = pg.database()
    name = url.partition("?")[0].rpartition("/")[2]
    [[text]] = _hold(pg, url, name)
    assert 1 == text.count("m.token = r.token")
    pg.ask(text.replace("m.token = r.token", "m.token is not null"), database=name)

    card = examine(lambda: PgBroker(url), runs=200, steps=50, seed=0, shrink=False)

    assert card.failure is not None
    assert card.seconds < 60


def test_a_broker_that_fails_gets_a_card_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bee_core.testing.model.__main__.connect", lambda url: NAMED["PriorityInverted"]()
    )

    result = CliRunner().invoke(main, ["memory://", "--runs", "50", "--steps", "12"])

    assert 1 == result.exit_code
    assert "result    FAILED: AssertionError" in result.output
    assert "state.do(step=" in result.output, "the steps are shown"


@contextmanager
def _altered(verb: str, old: str, new: str) -> Iterator[None]:
    """Inside it, this process has another script for a verb."""
    script = SCRIPTS[verb]
    text, sha = script.text, script.sha
    assert 1 == text.count(old.encode()), "the script has been changed: change the planted bug too"
    try:
        script.text = text.replace(old.encode(), new.encode())
        script.sha = hashlib.sha1(script.text).hexdigest().encode()
        yield
    finally:
        script.text, script.sha = text, sha


def _hold(pg: PgServer, url: str, name: str) -> list[tuple[str]]:
    import asyncio

    async def migrate() -> None:
        async with PgBroker(url, migrate=True) as broker:
            await broker.queues()

    asyncio.run(migrate())
    return pg.ask("select pg_get_functiondef('bee.hold'::regproc)", database=name)
