"""What runs in a child process around a user's function. Light: it imports nothing of bee."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ChildExited(Exception):
    """A function in a child process called sys.exit()."""


def run_as_child(function: Callable[..., T], *args: Any) -> T:
    """Call the function so that nothing it does disturbs the wire to its parent.

    The wire is the child's standard input and output, and nobody reads its standard error. A
    program that the function calls would inherit all three, so they lead nowhere meanwhile.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    wire = [os.dup(stream) for stream in range(3)]
    try:
        for stream in range(3):
            os.dup2(nothing, stream)
        return function(*args)
    except SystemExit as error:
        raise ChildExited(f"sys.exit({error.code!r})") from None
    finally:
        for stream, saved in enumerate(wire):
            os.dup2(saved, stream)
            os.close(saved)
        os.close(nothing)
