"""Where something is at the moment: stacks of tasks and of threads, as text."""

from __future__ import annotations

import asyncio
import sys
import traceback
from types import FrameType
from typing import Any

_DEEPEST = 50


def stack_of_thread(ident: int) -> str:
    """Where a thread is; empty if there is none."""
    frame = sys._current_frames().get(ident)
    return "" if frame is None else "".join(traceback.format_stack(frame))


def stack_of_task(task: asyncio.Task[Any]) -> str:
    """Where a task waits: the calls between its coroutine and what it awaits."""
    frames: list[tuple[FrameType, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(frames) < _DEEPEST:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return "".join(traceback.StackSummary.extract(iter(frames)).format())
