"""The two stores of a move, each asked with patience."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias, TypeVar

from bee_core.broker import Store
from bee_core.clock import Clock
from bee_core.errors import BrokerError, BrokerUnavailable, OutcomeUnknown
from bee_core.trouble import Trouble

T = TypeVar("T")

Where: TypeAlias = Literal["source", "destination"]


@contextmanager
def at(where: Where) -> Iterator[None]:
    """What fails inside has a note that says at which of the two stores that was."""
    try:
        yield
    except BrokerError as error:
        error.add_note(where)
        raise


class Side:
    """One of the two stores, asked again for a while when it is in trouble.

    Every question that is asked here may be repeated, whatever became of it the first time.
    """

    def __init__(
        self, where: Where, store: Store, clock: Clock, trouble: Trouble, patience: float
    ) -> None:
        self.store = store
        self._where = where
        self._clock = clock
        self._trouble = trouble
        self._patience = patience

    async def ask(self, verb: str, question: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The answer, and whether the question may have been answered before, unheard."""
        began, unheard = self._clock.now(), False
        while True:
            try:
                with at(self._where):
                    answer = await question()
            except (BrokerUnavailable, OutcomeUnknown) as error:
                unheard = unheard or isinstance(error, OutcomeUnknown)
                if self._clock.now() - began >= self._patience:
                    raise
                await self._trouble.back_off(verb, error)
            else:
                self._trouble.over(verb)
                return answer, unheard
