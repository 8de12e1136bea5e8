"""What a page tells its reader to do: files to write, commands to type, and what they answer.

A Python block whose first line is a comment with a file's name, `# hello.py`, is a file to write.
A `console` block has commands after `$ `, and below each what is to be seen. The fenced block after
`<!-- run -->` has commands, too, and they are not followed by what they print.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.markdown import Block, blocks
from tests.docs.program import FILE


class File(NamedTuple):
    """A file to write."""

    name: str
    text: str


class Command(NamedTuple):
    """A command to type, and what is to be seen then; None if the page does not say."""

    line: int
    words: str
    shows: str | None


Step = File | Command


def steps(page: Path) -> list[Step]:
    """What to do, in its order."""
    marked = _marked_lines(page)
    return [step for block in blocks(page) for step in _steps_of(block, marked)]


def _steps_of(block: Block, marked: set[int]) -> Iterator[Step]:
    match block.language:
        case "python" if name := FILE.match(block.text):
            yield File(f"{name[1]}.py", block.text)
        case "console":
            yield from _commands(block)
        case "bash" if block.line in marked:
            for number, words in enumerate(block.text.splitlines()):
                yield Command(block.line + number, words, None)


def _commands(block: Block) -> Iterator[Command]:
    line, words, shows = 0, "", ""
    for number, text in enumerate(block.text.splitlines(keepends=True)):
        if text.startswith("$ "):
            if words:
                yield Command(line, words, shows)
            line, words, shows = block.line + number, text[2:].strip(), ""
        else:
            assert words, f"line {block.line + number}: a console block begins with a command"
            shows += text
    yield Command(line, words, shows)


def _marked_lines(page: Path) -> set[int]:
    """The first lines of the blocks that are to be run, though they are no consoles."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return {number + 3 for number, line in enumerate(lines) if line == "<!-- run -->"}


_VARIES = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[+-]\d\d:\d\d": "a moment",
    r"\d\d:\d\d:\d\d\.\d{3}": "a time of day",
    r"[\w.-]+:\d+:[0-9a-f]{12}": "a worker",
    r"\bpid=\d+": "a process",
    r"\b\d+\.\d s\b": "seconds",
}
_ANY = re.compile("|".join(f"({pattern})" for pattern in _VARIES))


def pattern(shows: str) -> re.Pattern[str]:
    """What a page shows, with whatever differs from one reader to the next left open.

    That is moments, times of the day, seconds, and the names of workers and processes. A line
    `...` stands for any lines.
    """
    return re.compile("".join(map(_line_pattern, shows.splitlines())))


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    found, at = "", 0
    for match in _ANY.finditer(line):
        assert match.lastindex is not None
        found += re.escape(line[at : match.start()]) + list(_VARIES)[match.lastindex - 1]
        at = match.end()
    return found + re.escape(line[at:]) + "\n"
