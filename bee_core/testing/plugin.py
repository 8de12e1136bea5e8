"""The pytest plugin: `bee_clock`, `bee_hive` to put your hive under test, and the marker `bee`.

@pytest.mark.bee(runs="killed")
async def test_the_mail_is_sent_an_hour_later(bee_hive):
    async with bee_hive(hive) as bees:
        await mail.send(SendEmail(to="ada@example.org"), delay=3600)
        await bees.advance(3600)
        assert outbox == ["ada@example.org"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bee_core.testing.again import Runs
    from bee_core.testing.clock import ManualClock
    from bee_core.testing.hive import HiveUnderTest

_MARKER = (
    "bee(runs): what becomes of each job in `bee_hive`: 'once', 'twice' (delivered again when its "
    "handler has succeeded), 'killed' (its worker is killed then); of several, one test for each"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting `bee_runs`."""
    told = (
        "what @pytest.mark.bee(runs=...) is for tests that do not say; several: one test for each"
    )
    parser.addini("bee_runs", told, type="args", default=["once"])


def pytest_configure(config: pytest.Config) -> None:
    """The marker `bee`."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each of several `runs`; and a marker that is wrong is found before any test."""
    used = "bee_runs" in metafunc.fixturenames
    if used or metafunc.definition.get_closest_marker("bee") is not None:
        runs = _runs(metafunc.definition, metafunc.config)
        if used and len(runs) > 1:
            metafunc.parametrize("bee_runs", runs, indirect=True)


@pytest.fixture
def bee_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from bee_core.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def bee_runs(request: pytest.FixtureRequest) -> Runs:
    """What becomes of each job: as the marker `bee` says, or else the setting `bee_runs`."""
    given: Runs | None = getattr(request, "param", None)
    return _runs(request.node, request.config)[0] if given is None else given


@pytest.fixture
def bee_hive(
    bee_clock: ManualClock, bee_runs: Runs
) -> Callable[..., AbstractAsyncContextManager[HiveUnderTest]]:
    """`async with bee_hive(hive) as bees:` runs your hive on a memory broker and `bee_clock`."""
    from bee_core.testing.hive import running

    return partial(running, clock=bee_clock, runs=bee_runs)


def _runs(node: pytest.Item, config: pytest.Config) -> Sequence[Runs]:
    """What is to become of the jobs of a test; the test fails if that cannot be understood."""
    marker = node.get_closest_marker("bee")
    if marker is None:
        return _checked(config.getini("bee_runs"), "bee_runs")
    where = "@pytest.mark.bee"
    if marker.args or marker.kwargs.keys() != {"runs"}:
        pytest.fail(f"{where} takes runs and nothing else, as in {where}(runs='twice')", False)
    given = marker.kwargs["runs"]
    return _checked([given] if isinstance(given, str) else given, where)


def _checked(runs: Sequence[object], where: str) -> Sequence[Runs]:
    from bee_core.errors import InvalidOption
    from bee_core.testing.again import check_runs

    try:
        found = [check_runs(one) for one in runs]
    except (InvalidOption, TypeError) as error:
        pytest.fail(f"{where}: {error}", False)
    if not found or len(set(found)) < len(found):
        pytest.fail(f"{where}: say once, twice or killed, each once at most; not {runs!r}", False)
    return found
