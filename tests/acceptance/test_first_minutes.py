"""Every command that the README and the tutorial print works, and answers what they show.

Here what bee depends on is lent by the environment of the tests, so that no network is needed;
`python -m tests.acceptance.first_minutes` does it with pip, in an environment that was empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.first_minutes import PAGES, PG, REDIS, follow
from tests.acceptance.page import Command, File, steps
from tests.acceptance.wheel import borrow, plain_environment


@pytest.mark.parametrize(
    ("name", "store", "most"), [("README", "redis", 9), ("tutorial", "pg", 13)]
)
def test_a_stranger_gets_from_the_first_command_to_a_survived_crash(
    name: str, store: str, most: int, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if store == "redis":
        url = f"{request.getfixturevalue('valkey').url}?prefix=stranger"
    else:
        url = request.getfixturevalue("pg").database() + "&migrate=1"
    borrow(tmp_path / ".venv", wheel)

    times = follow(PAGES[name], tmp_path, url, environment=plain_environment(), installed=True)

    assert times.first_job[0] <= 3
    assert times.survived[0] <= most


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_shows_how_to_change_the_store(page: Path) -> None:
    words = [step.words for step in steps(page) if isinstance(step, Command)]

    assert f"export BEE_URL={REDIS}" in words
    assert f'BEE_URL="{PG}"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_file_that_a_page_shows_is_used(page: Path) -> None:
    files = {step.name for step in steps(page) if isinstance(step, File)}
    words = " ".join(step.words for step in steps(page) if isinstance(step, Command))

    assert files == {name for name in files if name in words}
