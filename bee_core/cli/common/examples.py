"""The last lines of every help: what one may type."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """An epilog for click, line by line as it is."""
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in lines)
