"""Traces with OpenTelemetry: `Hive(tracing=OpenTelemetry())`. Needs the extra `opentelemetry`.

A send is a producer span, whose context travels in the headers of the message; a run of a handler
is a consumer span in a trace of its own, with a link to who sent the job: it may be run days later,
and again and again. Which spans are kept and where they go is up to the SDK, which the program
sets up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, assert_never

from bee_core.attempt import describe
from bee_core.logs import error_line
from bee_core.message import Draft, Lease
from bee_core.outcome import (
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Ruled,
    Stalled,
    Succeeded,
    TimedOut,
    Unknown,
    reason_of,
)

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, StatusCode
except ImportError as error:
    need = 'opentelemetry-api is needed: pip install "bee-jobs[opentelemetry]"'
    raise ImportError(need) from error

SYSTEM = "bee"


class OpenTelemetry:
    """Traces sends and runs.

    tracer_provider   whose tracer to use; by default the global one
    propagator        how contexts travel in headers; by default the global one: W3C trace context
                      and baggage, unless OTEL_PROPAGATORS says otherwise
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        propagator: Any = None,
    ) -> None:
        self._tracer = trace.get_tracer("bee_core", tracer_provider=tracer_provider)
        self._inject: Callable[..., None] = (propagator or propagate).inject
        self._extract: Callable[..., context.Context] = (propagator or propagate).extract

    def headers(self) -> Mapping[str, str]:
        """The headers that lead back to the current span, for a draft that you send yourself."""
        carrier: dict[str, str] = {}
        self._inject(carrier)
        return carrier

    @contextmanager
    def sending(self, queue: str, drafts: Sequence[Draft]) -> Iterator[Mapping[str, str]]:
        """A producer span around a send."""
        attributes: dict[str, str | int] = _attributes("send", queue)
        if len(drafts) == 1:
            attributes["messaging.message.id"] = drafts[0].id
            attributes["messaging.message.body.size"] = len(drafts[0].body)
        else:
            attributes["messaging.batch.message_count"] = len(drafts)
        span = self._tracer.start_span(
            f"send {queue}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield self.headers()
        except BaseException as error:
            _blame(span, error)
            raise
        finally:
            context.detach(token)
            span.end()

    def drafting(self, queue: str, draft: Draft) -> Mapping[str, str]:
        """A producer span for the moment at which a follow-up job is made."""
        attributes = _attributes("create", queue) | {"messaging.message.id": draft.id}
        span = self._tracer.start_span(
            f"create {queue}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        span.end()
        carrier: dict[str, str] = {}
        self._inject(carrier, context=trace.set_span_in_context(span))
        return carrier

    @contextmanager
    def attempting(
        self, queue: str, lease: Lease, tag: str, attempt: int
    ) -> Iterator[Callable[[Outcome | None], None]]:
        """A consumer span around a run of a handler."""
        sender = self._extract(lease.headers, context=context.Context())
        origin = trace.get_current_span(sender).get_span_context()
        attributes = _attributes("process", queue) | {
            "messaging.message.id": lease.receipt.id,
            "messaging.message.body.size": len(lease.body),
            "bee.tag": tag,
            "bee.attempt": attempt,
        }
        base = trace.set_span_in_context(trace.INVALID_SPAN, sender)  # its baggage, not its trace
        span = self._tracer.start_span(
            f"process {queue}",
            context=base,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(origin)] if origin.is_valid else None,
        )
        token = context.attach(trace.set_span_in_context(span, base))
        try:
            yield lambda outcome: _tell(span, outcome)
        finally:
            context.detach(token)
            span.end()


def _attributes(operation: str, queue: str) -> dict[str, str | int]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
    }


def _tell(span: Span, outcome: Outcome | None) -> None:
    """Write on a span how its run ended."""
    if outcome is None:
        span.set_attribute("bee.outcome", "lost")
        return
    reason = reason_of(outcome)
    span.set_attribute("bee.outcome", reason)
    match outcome:
        case Failed(error=error):
            _blame(span, error)
        case TimedOut() | Stalled() | Malformed() | Unknown():
            span.set_attribute("error.type", reason)
            span.set_status(StatusCode.ERROR, reason)
        case Succeeded() | Interrupted() | Ruled():
            pass
        case _:
            assert_never(outcome)


def _blame(span: Span, error: BaseException) -> None:
    """Write an error on a span: bounded, and whatever its own methods do."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    line = error_line(error)
    span.set_attribute("error.type", name)
    span.set_status(StatusCode.ERROR, line)
    if span.is_recording():
        span.add_event(
            "exception",
            {
                "exception.type": name,
                "exception.message": line,
                "exception.stacktrace": describe(error),
            },
        )
