"""The documentation as a site: it builds without a warning, and has every page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from .markdown import PAGES, ROOT, links, name_of

DOCS = ROOT / "docs"
IN_THE_SITE = [page for page in PAGES if page.is_relative_to(DOCS)]
CONFIGURATION = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def listed(nav: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    match nav:
        case str():
            yield nav
        case list():
            for one in nav:
                yield from listed(one)
        case dict():
            for one in nav.values():
                yield from listed(one)
        case _:
            raise AssertionError(nav)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = sorted(page.relative_to(DOCS).as_posix() for page in IN_THE_SITE)

    assert pages == sorted(listed(CONFIGURATION["nav"]))


@pytest.mark.parametrize("page", IN_THE_SITE, ids=name_of)
def test_no_link_leads_out_of_the_site(page: Path) -> None:
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]

    assert [] == [target for target in targets if not target.is_relative_to(DOCS)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is built, with a warning being an error."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert 0 == run.returncode, run.stdout + run.stderr
    assert "No issues found" in run.stdout + run.stderr
    return folder / "site"


def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    pages = {page.relative_to(site).with_suffix(".md").as_posix() for page in site.rglob("*.html")}
    wanted = {page.relative_to(DOCS).as_posix() for page in IN_THE_SITE}

    assert {name.replace("README.md", "index.md") for name in wanted} <= pages
    assert [] == list(site.rglob("*.py"))


def test_the_site_asks_nobody_else_for_anything(site: Path) -> None:
    """Links may lead anywhere. What a browser loads by itself is in the site, or nothing of it."""
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]*\bsrc=[\"']?(?:https?:)?//|<link[^>]*\bhref=[\"']?(?:https?:)?//"
    )
    loaded_by_the_theme = re.compile(r"class=\"(?:mermaid|glightbox|pyodide)\"")  # from elsewhere

    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text), page
        assert not loaded_by_the_theme.search(text), page
