"""As much of Markdown as the tests of the documentation need: fenced blocks, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"( *)(`{3,})(\S*)")
_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^()\s]+)\)")


class Block(NamedTuple):
    """A fenced block. `line` is that of its first line; `shows` what stands right below it."""

    language: str
    line: int
    text: str
    shows: str | None = None
    """The text block that follows with nothing in between: what the program prints."""


def name_of(page: Path) -> str:
    """The page as people call it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    between = True  # whether prose stands between the last block and here
    number = 0
    while number < len(lines):
        fence = _FENCE.fullmatch(lines[number])
        number += 1
        if fence is None:
            between = between or bool(lines[number - 1].strip())
            continue
        indent, ticks, language = fence.groups()
        end = lines.index(indent + ticks, number)
        text = "".join(line.removeprefix(indent) + "\n" for line in lines[number:end])
        if language == "text" and not between and found[-1].language == "python":
            found[-1] = found[-1]._replace(shows=text)
        else:
            found.append(Block(language, number + 1, text))
        between = False
        number = end + 1
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^( *)(`{3,}).*?^\1\2$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    """The targets of the links on a page that lead to other files, or to a place on this one."""
    for target in _LINK.findall(prose(page)):
        if "://" not in target:
            yield target


def anchors(page: Path) -> set[str]:
    """The places on a page that a link can name."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def sections(page: Path) -> dict[str, str]:
    """What stands below each heading, by the heading."""
    parts = re.split(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def tables(text: str) -> Iterator[list[str]]:
    """The rows of every table, cell by cell, headings included."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.split("|")[1:-1]]
