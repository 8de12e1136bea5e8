"""No link of the README or of docs/ leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from .markdown import PAGES, ROOT, anchors, links, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, place = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target.is_dir():
            target /= "README.md"
        if not target.is_file() or (place and place not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_map_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    mapped = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    records = {page for page in PAGES if page.parent.name == "adr" and page.stem != "README"}

    assert set() == set(PAGES) - mapped - records - {index, ROOT / "README.md"}


def test_the_list_of_decisions_leads_to_every_record() -> None:
    adr = ROOT / "docs" / "adr"
    listed = {(adr / link).resolve() for link in links(adr / "README.md")}

    assert set() == set(adr.glob("0*.md")) - listed


@pytest.mark.parametrize("record", sorted((ROOT / "docs" / "adr").glob("0*.md")), ids=name_of)
def test_a_record_says_what_was_given_up(record: Path) -> None:
    wanted = {"context", "decision", "consequences"}

    assert wanted <= anchors(record)
