"""What bee knows of tracing: what a send carries along, and who is told of an attempt.

`opentelemetry.py` is an implementation of it. Without one, nothing of this is called.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeAlias

import msgspec

from bee_core.checks import MOST_HEADER_BYTES
from bee_core.message import Draft, Lease, Sent
from bee_core.outcome import Outcome

log = logging.getLogger("bee")

Send: TypeAlias = Callable[[str, Sequence[Draft]], Coroutine[Any, Any, Sequence[Sent]]]
Ended: TypeAlias = Callable[[Outcome | None], None]


class Tracing(Protocol):
    """Follows a job from who sends it to who runs it."""

    def sending(
        self, queue: str, drafts: Sequence[Draft]
    ) -> AbstractContextManager[Mapping[str, str]]:
        """Around one round trip that sends drafts; gives the headers that they carry."""
        ...

    def drafting(self, queue: str, draft: Draft) -> Mapping[str, str]:
        """The headers of a draft that is sent later, as its sender is settled."""
        ...

    def attempting(
        self, queue: str, lease: Lease, tag: str, attempt: int
    ) -> AbstractContextManager[Ended]:
        """Around one run of a handler, in the context that the handler runs in.

        What it gives is called with the outcome; None: the job was lost to somebody else.
        """
        ...


def traced_send(tracing: Tracing, send: Send) -> Send:
    """A send that is traced. What goes wrong with the tracing is logged, and it is sent once."""

    async def sending(queue: str, drafts: Sequence[Draft]) -> Sequence[Sent]:
        sent: Sequence[Sent] | None = None
        failure: BaseException | None = None
        try:
            with tracing.sending(queue, drafts) as headers:
                carrying = [_carrying(draft, headers) for draft in drafts]
                try:
                    sent = await send(queue, carrying)
                except BaseException as error:
                    failure = error
                    raise
        except Exception:
            if failure is None:
                _complain()
        if failure is not None:
            raise failure
        return await send(queue, drafts) if sent is None else sent

    return sending


def traced_drafts(
    tracing: Tracing | None, queue: str, drafts: Sequence[Draft]
) -> tuple[Draft, ...]:
    """Drafts that carry what leads back to where they were made."""
    if tracing is None:
        return tuple(drafts)
    return tuple(_traced_draft(tracing, queue, draft) for draft in drafts)


def _traced_draft(tracing: Tracing, queue: str, draft: Draft) -> Draft:
    try:
        return _carrying(draft, tracing.drafting(queue, draft))
    except Exception:
        _complain()
        return draft


async def traced_run(
    tracing: Tracing,
    queue: str,
    lease: Lease,
    tag: str,
    attempt: int,
    run: Callable[[], Awaitable[Outcome]],
    counted: Callable[[Outcome], Outcome | None],
) -> Outcome:
    """A run that is traced, and never raises. `counted` makes of its outcome the one to be told.

    Nor does this raise: what goes wrong with the tracing is logged.
    """
    outcome: Outcome | None = None
    try:
        with tracing.attempting(queue, lease, tag, attempt) as ended:
            outcome = await run()
            ended(counted(outcome))
    except Exception:
        _complain()
    return await run() if outcome is None else outcome


def _complain() -> None:
    with suppress(Exception):  # a log that fails must not end a job, or a send, either
        log.exception("tracing failed")


def _carrying(draft: Draft, headers: Mapping[str, str]) -> Draft:
    """The draft with more headers: its own come first, and none is worth refusing a send."""
    own = draft.headers
    if not headers or not own.keys().isdisjoint(headers):
        return draft
    whole = {**own, **headers}
    if sum(map(_size, whole)) + sum(map(_size, whole.values())) > MOST_HEADER_BYTES:
        return draft
    return msgspec.structs.replace(draft, headers=whole)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
