"""Every planted bug is noticed, within a minute each. `-rP` shows by what."""

from __future__ import annotations

import sys

import pytest

from tests.planted import lua, proofs, sql, worker
from tests.planted.bug import Bug
from tests.servers import PgServer, RedisServer

ALL = (*lua.BUGS, *sql.BUGS, *worker.BUGS)


@pytest.fixture(autouse=True)
def _no_long_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def every(bugs: tuple[Bug, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bug", bugs, ids=[bug.name.replace(" ", "-") for bug in bugs])


@every(lua.BUGS)
def test_a_bug_in_a_script_is_noticed(bug: Bug, valkey: RedisServer) -> None:
    is_noticed(bug, proofs.on_redis(bug, valkey.url))


@every(sql.BUGS)
def test_a_bug_in_a_function_is_noticed(bug: Bug, pg: PgServer) -> None:
    is_noticed(bug, proofs.on_pg(bug, pg.url))


@every(worker.BUGS)
def test_a_bug_in_the_worker_is_noticed(bug: Bug) -> None:
    is_noticed(bug, proofs.in_worker(bug))


def is_noticed(bug: Bug, caught: proofs.Caught | None) -> None:
    assert caught is not None, f"nothing notices it: {bug.name}"
    assert caught.seconds < proofs.LONGEST
    sys.stdout.write(f"{bug.name}: {caught.by}, after {caught.seconds:.1f} s\n")


def test_every_bug_changes_exactly_one_place_of_its_file() -> None:
    assert all(bug.altered() for bug in ALL)
    assert all(bug.old != bug.new for bug in ALL)


def test_there_are_enough_of_them_and_no_two_are_called_the_same() -> None:
    for bugs in (lua.BUGS, sql.BUGS, worker.BUGS):
        assert len(bugs) == len({bug.name for bug in bugs})
    assert len(ALL) >= 30


def test_a_fragment_that_is_no_longer_there_is_an_error() -> None:
    gone = Bug("gone", "bee_redis/lua/settle.lua", "what was never there", "", ())

    with pytest.raises(AssertionError, match="has 0 of"):
        gone.altered()


def test_what_is_no_bug_is_not_noticed(
    valkey: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof fails because of the bug, and not because of how it is planted."""
    monkeypatch.setattr(proofs, "LONGEST", 2.0)
    none = Bug(
        "none", "bee_redis/lua/settle.lua", "ring(rings) -- 6. ring", "ring(rings)", ("settle",)
    )

    assert proofs.on_redis(none, valkey.url) is None
