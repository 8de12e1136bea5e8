"""Calls to several parts at once, that count as one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from bee_core.errors import BrokerFull, BrokerUnavailable, OutcomeUnknown, part_done

T = TypeVar("T")


async def together(calls: Sequence[Coroutine[Any, Any, T]], *, changes: bool = True) -> list[T]:
    """All their answers; or, if one failed, its error, when all have ended.

    If one that changes something has been carried out, or may have been, then it is not said that
    nothing was done: OutcomeUnknown.
    """
    if len(calls) == 1:
        return [await calls[0]]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[T] = []
    errors: list[BaseException] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            errors.append(outcome)
        else:
            answers.append(outcome)
    if not errors:
        return answers
    gravest = min(errors, key=_may_pass)  # what waiting cannot mend is said first
    begun = bool(answers) or any(isinstance(error, OutcomeUnknown) for error in errors)
    with part_done(changes and begun):
        raise gravest


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, BrokerUnavailable | BrokerFull | OutcomeUnknown)
