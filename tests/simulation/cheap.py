"""Texts of errors and stacks cost more than all the rest of a simulated run, and prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def cheap_texts() -> Iterator[None]:
    """Let errors and stacks be told in a word."""
    with (
        patch("bee_core.attempt.describe", lambda error: type(error).__name__),
        patch("bee_core.attempt.stack_of_task", lambda task: ""),
        patch("bee_core.heartbeat.stack_of_thread", lambda ident: ""),
        patch("bee_core.verdict.error_line", lambda error: type(error).__name__),
    ):
        yield
