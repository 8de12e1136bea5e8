"""Traces: from who sends a job to who runs it, with the real SDK of OpenTelemetry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import bee_core as bee
from bee_core.message import Draft, Lease
from bee_core.opentelemetry import OpenTelemetry
from bee_core.outcome import Outcome
from bee_core.stored import State
from bee_core.testing import running
from bee_core.tracing import Tracing
from bee_memory import MemoryBroker
from bee_redis import RedisBroker
from tests.servers import RedisServer

from .support import Work, nothing, until

ARCHIVE = bee.Policy(on_error=bee.Archive(), timeout=10, on_timeout=bee.Archive())


class Traces:
    """The spans that have ended, in their order."""

    def __init__(self) -> None:
        provider = TracerProvider()
        self.exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("tests")
        self.tracing = OpenTelemetry(tracer_provider=provider)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        [found] = self.spans(name)
        return found


@pytest.fixture
def traces() -> Traces:
    return Traces()


def hive_with(
    tracing: Tracing | None,
    handler: Callable[..., object] = nothing,
    policy: bee.Policy = ARCHIVE,
) -> tuple[bee.Hive, bee.HiveQueue[Work]]:
    hive = bee.Hive("memory://", tracing=tracing)
    jobs = hive.queue("jobs", Work, policy=policy)
    jobs.handlers.handle_all(handler)
    return hive, jobs


async def drained(hive: bee.Hive, *sends: Any) -> None:
    async with hive:
        for send in sends:
            await send
        await hive.run(until_empty=True)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def context_of(span: ReadableSpan) -> trace.SpanContext:
    assert span.context is not None
    return span.context


def header_of(span: ReadableSpan) -> str:
    found = context_of(span)
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


async def test_a_run_is_a_trace_of_its_own_that_links_to_who_sent_the_job(traces: Traces) -> None:
    seen: list[Mapping[str, str]] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        seen.append(delivery.headers)

    hive, jobs = hive_with(traces.tracing, handle)
    with traces.tracer.start_as_current_span("request"):
        async with hive:
            await jobs.send(Work(), id="a")
            await hive.run(until_empty=True)

    request, send, process = (
        traces.span(name) for name in ("request", "send jobs", "process jobs")
    )
    assert send.parent is not None
    assert (send.kind, send.parent.span_id) == (SpanKind.PRODUCER, context_of(request).span_id)
    assert [{"traceparent": header_of(send)}] == seen
    assert (process.kind, process.parent) == (SpanKind.CONSUMER, None)
    assert context_of(process).trace_id != context_of(request).trace_id
    assert [context_of(send).span_id] == [link.context.span_id for link in process.links]
    assert process.status.status_code is StatusCode.UNSET
    common = {
        "messaging.system": "bee",
        "messaging.destination.name": "jobs",
        "messaging.message.id": "a",
        "messaging.message.body.size": attributes(send)["messaging.message.body.size"],
    }
    assert attributes(send) == common | {
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
    }
    assert attributes(process) == common | {
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "bee.tag": "work",
        "bee.attempt": 1,
        "bee.outcome": "succeeded",
    }


async def test_many_jobs_in_one_round_trip_are_one_span(traces: Traces) -> None:
    hive, jobs = hive_with(traces.tracing)

    await drained(hive, jobs.send_many([Work(), Work(), Work()]))

    send = traces.span("send jobs")
    assert 3 == attributes(send)["messaging.batch.message_count"]
    assert "messaging.message.id" not in attributes(send)
    linked = [link.context.span_id for one in traces.spans("process jobs") for link in one.links]
    assert [context_of(send).span_id] * 3 == linked


@pytest.mark.parametrize("thread", [False, True])
async def test_the_span_is_current_inside_the_handler(traces: Traces, thread: bool) -> None:
    async def in_loop(job: Work) -> None:
        with traces.tracer.start_as_current_span("query"):
            await asyncio.sleep(0)

    def in_thread(job: Work) -> None:
        with traces.tracer.start_as_current_span("query"):
            pass

    hive, jobs = hive_with(traces.tracing, in_thread if thread else in_loop)
    await drained(hive, jobs.send(Work()))

    query, process = traces.span("query"), traces.span("process jobs")
    assert query.parent is not None
    assert context_of(process).span_id == query.parent.span_id
    assert not trace.get_current_span().get_span_context().is_valid


async def test_runs_at_once_do_not_mix_their_spans(traces: Traces) -> None:
    meet = asyncio.Barrier(5)

    async def handle(job: Work) -> None:
        await meet.wait()
        with traces.tracer.start_as_current_span(f"query {job.what}"):
            await meet.wait()

    hive, jobs = hive_with(traces.tracing, handle)
    async with hive:
        for number in range(5):
            await jobs.send(Work(str(number)), id=str(number))
        await hive.run(until_empty=True)

    by_id = {
        attributes(span)["messaging.message.id"]: span for span in traces.spans("process jobs")
    }
    for number in range(5):
        parent = traces.span(f"query {number}").parent
        assert parent is not None
        assert context_of(by_id[str(number)]).span_id == parent.span_id


async def test_a_failure_is_written_on_the_span(traces: Traces) -> None:
    class Broke(Exception):
        def __str__(self) -> str:
            return "x" * 1_000

    async def handle(job: Work) -> None:
        raise Broke

    hive, jobs = hive_with(traces.tracing, handle)
    await drained(hive, jobs.send(Work()))

    span = traces.span("process jobs")
    assert span.status.status_code is StatusCode.ERROR
    assert str(attributes(span)["error.type"]).endswith("Broke")
    assert "failed" == attributes(span)["bee.outcome"]
    [event] = span.events
    assert "exception" == event.name
    shown = dict(event.attributes or {})
    assert 200 == len(str(shown["exception.message"]))
    assert "raise Broke" in str(shown["exception.stacktrace"])


async def test_an_error_that_cannot_be_shown_is_written_all_the_same(traces: Traces) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def handle(job: Work) -> None:
        raise Mute

    hive, jobs = hive_with(traces.tracing, handle)
    await drained(hive, jobs.send(Work()))

    assert traces.span("process jobs").status.status_code is StatusCode.ERROR


async def test_a_timeout_and_a_shutdown_are_told_apart(traces: Traces) -> None:
    begun: list[str] = []

    async def handle(job: Work) -> None:
        begun.append(job.what)
        await asyncio.sleep(1_000)

    hive, jobs = hive_with(traces.tracing, handle)
    async with running(hive) as bees:
        await jobs.send(Work())
        await until(lambda: len(begun) == 1)
        await bees.advance(10)
        await jobs.send(Work())
        await until(lambda: len(begun) == 2)

    first, second = traces.spans("process jobs")
    assert ("timed_out", "timed_out", StatusCode.ERROR) == (
        attributes(first)["bee.outcome"],
        attributes(first)["error.type"],
        first.status.status_code,
    )
    assert ("interrupted", StatusCode.UNSET) == (
        attributes(second)["bee.outcome"],
        second.status.status_code,
    )


async def test_a_job_that_is_lost_says_so_on_its_span(traces: Traces) -> None:
    begun = asyncio.Event()

    async def handle(job: Work) -> None:
        begun.set()
        await asyncio.sleep(1_000)

    hive, jobs = hive_with(traces.tracing, handle, policy=bee.Policy())
    async with running(hive) as bees:
        await jobs.send(Work(), id="a")
        await begun.wait()
        await jobs.cancel("a")
        await bees.advance(30)

    assert "lost" == attributes(traces.span("process jobs"))["bee.outcome"]


async def test_every_run_of_a_job_links_to_the_one_who_sent_it(traces: Traces) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        if delivery.attempt < 3:
            raise bee.Retry(after=0)
        raise ValueError

    hive, jobs = hive_with(traces.tracing, handle)
    async with hive:
        await jobs.send(Work(), id="a")
        await hive.run(until_empty=True)
        await hive.broker.restore("jobs", ["a"])
        await hive.run(until_empty=True)

    runs = traces.spans("process jobs")
    assert len(runs) >= 4
    sender = context_of(traces.span("send jobs")).span_id
    assert {sender} == {link.context.span_id for run in runs for link in run.links}
    assert len(runs) == len({context_of(run).trace_id for run in runs})


async def test_a_follow_up_links_to_the_run_that_asked_for_it(traces: Traces) -> None:
    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        match job.what:
            case "first":
                delivery.then(Work("second"), id="second")
            case "second":
                delivery.group([Work("third")], then=Work("fourth"), id="g")

    hive, jobs = hive_with(traces.tracing, handle)
    await drained(hive, jobs.send(Work("first"), id="first"))

    runs = {attributes(one)["messaging.message.id"]: one for one in traces.spans("process jobs")}
    made = {attributes(one)["messaging.message.id"]: one for one in traces.spans("create jobs")}
    assert {"first", "second", "g", "g/1"} == set(runs)
    for id, maker in (("second", "first"), ("g", "second"), ("g/1", "second")):
        parent = made[id].parent
        assert parent is not None
        assert context_of(runs[maker]).span_id == parent.span_id
        assert [context_of(made[id]).span_id] == [one.context.span_id for one in runs[id].links]
    assert "create" == attributes(made["g"])["messaging.operation.type"]


async def test_the_jobs_of_a_group_carry_it_beside_their_own_headers(traces: Traces) -> None:
    hive, jobs = hive_with(traces.tracing)
    async with hive:
        await jobs.group([Work(), Work()], then=Work(), id="g")
        stored = [await hive.broker.get("jobs", id) for id in ("g", "g/1", "g/2")]

    carried = [dict(one.headers) for one in stored if one is not None]
    assert [header_of(traces.span("send jobs"))] * 3 == [one["traceparent"] for one in carried]
    assert "2" == carried[0]["bee-awaits"]


async def test_headers_that_the_user_gives_win(traces: Traces) -> None:
    own = {"traceparent": f"00-{1:032x}-{2:016x}-01", "mine": "yes"}
    hive, jobs = hive_with(traces.tracing)

    await drained(hive, jobs.send(Work(), headers=own))

    [link] = traces.span("process jobs").links
    assert (1, 2) == (link.context.trace_id, link.context.span_id)


async def test_no_send_is_refused_because_its_trace_finds_no_room(traces: Traces) -> None:
    hive, jobs = hive_with(traces.tracing)

    await drained(hive, jobs.send(Work(), headers={"x": "y" * 8_190}))

    assert () == tuple(traces.span("process jobs").links)


async def test_headers_of_others_that_make_no_sense_do_no_harm(traces: Traces) -> None:
    hive, jobs = hive_with(traces.tracing)

    await drained(hive, jobs.send(Work(), headers={"traceparent": "nonsense"}))

    assert () == tuple(traces.span("process jobs").links)


async def test_a_send_that_fails_says_so_on_its_span(traces: Traces) -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "jobs", Work, tracing=traces.tracing)
    await queue.send(Work(), id="a")

    with pytest.raises(bee.IdTaken):
        await queue.send(Work(), id="a", if_taken=bee.Reject())

    first, second = traces.spans("send jobs")
    assert first.status.status_code is StatusCode.UNSET
    assert second.status.status_code is StatusCode.ERROR
    assert "bee_core.errors.IdTaken" == attributes(second)["error.type"]
    assert not trace.get_current_span().get_span_context().is_valid


async def test_baggage_travels_too(traces: Traces) -> None:
    seen: list[object] = []

    async def handle(job: Work) -> None:
        seen.append(baggage.get_baggage("customer"))

    hive, jobs = hive_with(traces.tracing, handle)
    async with hive:
        token = context.attach(baggage.set_baggage("customer", "Ada"))
        await jobs.send(Work())
        context.detach(token)
        await hive.run(until_empty=True)

    assert ["Ada"] == seen


async def test_schedules_are_no_jobs_and_have_no_span(traces: Traces) -> None:
    hive, jobs = hive_with(traces.tracing)
    jobs.schedule("tick", Work("tock"), every=60)
    async with running(hive) as bees:
        await bees.advance(130)

    tags = {attributes(one)["bee.tag"] for one in traces.spans("process jobs")}
    assert {"work"} == tags


async def test_without_tracing_no_header_is_added() -> None:
    hive, jobs = hive_with(None)
    async with hive:
        await jobs.send(Work(), id="a")
        stored = await hive.broker.get("jobs", "a")

    assert stored is not None
    assert {} == dict(stored.headers)


async def test_a_draft_sent_by_other_means_can_carry_the_current_span(traces: Traces) -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", Work, tracing=traces.tracing)

    with traces.tracer.start_as_current_span("request"):
        draft = queue.draft(Work(), headers=traces.tracing.headers())

    assert {"traceparent": header_of(traces.span("request"))} == dict(draft.headers)


class Broken:
    """A tracing that fails wherever it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def _break(self, where: str) -> None:
        if where == self.where:
            raise RuntimeError("no trace")

    @contextmanager
    def sending(self, queue: str, drafts: Sequence[Draft]) -> Iterator[Mapping[str, str]]:
        self._break("before a send")
        yield {}
        self._break("after a send")

    def drafting(self, queue: str, draft: Draft) -> Mapping[str, str]:
        self._break("drafting")
        return {}

    def attempting(
        self, queue: str, lease: Lease, tag: str, attempt: int
    ) -> AbstractContextManager[Callable[[Outcome | None], None]]:
        @contextmanager
        def attempting() -> Iterator[Callable[[Outcome | None], None]]:
            self._break("begin")
            yield lambda outcome: self._break("ended")
            self._break("leave")

        return attempting()


@pytest.mark.parametrize("where", ["begin", "ended", "leave"])
async def test_a_tracing_that_fails_fails_no_job(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    async def handle(job: Work) -> None:
        ran.append(job.what)

    hive, jobs = hive_with(Broken(where), handle)
    await drained(hive, jobs.send(Work("a")), jobs.send(Work("b")))

    assert ["a", "b"] == sorted(ran)
    failures = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert ["tracing failed"] * 2 == [one.getMessage() for one in failures]


@pytest.mark.parametrize("where", ["before a send", "after a send", "drafting"])
async def test_a_tracing_that_fails_fails_no_send(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    async def handle(job: Work, delivery: bee.Delivery[Work]) -> None:
        ran.append(job.what)
        if job.what == "a":
            delivery.then(Work("b"))

    hive, jobs = hive_with(Broken(where), handle)
    await drained(hive, jobs.send(Work("a")))

    assert ["a", "b"] == ran
    failures = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert ["tracing failed"] == [one.getMessage() for one in failures]


async def test_the_headers_travel_through_a_real_server(
    valkey: RedisServer, traces: Traces
) -> None:
    async with RedisBroker(valkey.url) as broker:
        await broker.drop("traces")
        queue = bee.Queue(broker, "traces", Work, tracing=traces.tracing)
        await queue.send(Work(), id="a")
        page = await broker.scan("traces", State.READY)
        worker = bee.Worker(broker, "traces", Work, nothing, tracing=traces.tracing)
        await worker.run(until_empty=True)
        await broker.drop("traces")

    send, process = traces.span("send traces"), traces.span("process traces")
    assert [{"traceparent": header_of(send)}] == [dict(one.headers) for one in page.items]
    assert [context_of(send).span_id] == [link.context.span_id for link in process.links]
