"""Every Python block of the README and of docs/ runs, and prints what the page says it prints."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import PgServer

from .markdown import PAGES, ROOT, blocks, name_of
from .program import run_page

WITH_PROGRAMS = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[types.ModuleType]:
    """A module for the programs of one page, in a directory and environment without settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEE_URL", raising=False)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    log = logging.getLogger("bee")
    level = log.level
    yield module
    log.setLevel(level)  # a page may have turned it down


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_the_programs_of_a_page_run(
    page: Path,
    module: types.ModuleType,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "DATABASE_URL" in page.read_text(encoding="utf-8"):
        server: PgServer = request.getfixturevalue("pg")
        monkeypatch.setenv("DATABASE_URL", server.database())
    run_page(page, module, request.getfixturevalue)


def test_the_readmes_own_test_is_among_them() -> None:
    assert ROOT / "README.md" in WITH_PROGRAMS
    assert any("async def test_" in block.text for block in blocks(ROOT / "README.md"))


PAGE = """
```python
import asyncio

async def test_tests_are_run():
    await asyncio.sleep(0)
    calls.append("test")

async def test_tests_get_fixtures(bee_clock):
    calls.append(bee_clock)

calls = []
print("hello")
```
```text
hello
```

```python
await asyncio.sleep(0)
print(calls)
```

These words stand in between, so this is not what the program prints:

```text
whatever
```
"""


def test_a_page_is_really_run(module: types.ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    run_page(page, module, lambda name: name)

    assert module.calls == ["test", "bee_clock"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('calls.append("test")', "assert False"),
        ("```text\nhello", "```text\ngoodbye"),
        ("print(calls)", "print(cells)"),
    ],
)
def test_a_wrong_page_fails(old: str, new: str, module: types.ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(old, new))

    with pytest.raises((AssertionError, NameError)):
        run_page(page, module, lambda name: name)
