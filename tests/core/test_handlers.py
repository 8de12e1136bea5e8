"""Which function handles which job, and how it will be called."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

import bee_core as bee
from bee_core.delivery import Call
from bee_core.handlers import FAILURE_RULES, KIND_HEADER, Handlers
from bee_core.message import Counters, Draft, Lease, Note, Receipt
from bee_core.queue import POLICY_HEADER
from bee_memory import MemoryBroker
from tests.core.support import Jobs, Resize, SendEmail, Stranger

queue: bee.Queue[Jobs] = bee.Queue(MemoryBroker(), "mail", Jobs)
email = SendEmail(to="ada")


async def asynchronous(job: Any, delivery: Any) -> None: ...
async def asynchronous_alone(job: Any) -> None: ...
def plain(job: Any, delivery: Any) -> None: ...
def plain_alone(job: Any) -> None: ...


class Handling:
    async def method(self, job: Any, delivery: Any) -> None: ...
    def plain_method(self, job: Any) -> None: ...
    @staticmethod
    async def static(job: Any) -> None: ...
    @classmethod
    def of_class(cls, job: Any, delivery: Any) -> None: ...


class AsyncObject:
    async def __call__(self, job: Any, delivery: Any) -> None: ...


class PlainObject:
    def __call__(self, job: Any) -> None: ...


def with_option(option: str, job: Any, delivery: Any = None) -> None: ...
async def any_number(*args: Any) -> None: ...
async def job_and_more(job: Any, *args: Any) -> None: ...
async def optional_delivery(job: Any, delivery: Any = None) -> None: ...
async def further_defaults(job: Any, delivery: Any, more: int = 1, *, key: int = 2) -> None: ...
async def with_keywords(job: Any, **options: Any) -> None: ...
async def positional(job: Any, delivery: Any, /) -> None: ...


# How a function is called.


@pytest.mark.parametrize(
    ("function", "kind", "takes_delivery"),
    [
        (asynchronous, "async", True),
        (asynchronous_alone, "async", False),
        (plain, "thread", True),
        (plain_alone, "thread", False),
        (lambda job: None, "thread", False),
        (Handling().method, "async", True),
        (Handling().plain_method, "thread", False),
        (Handling.static, "async", False),
        (Handling.of_class, "thread", True),
        (AsyncObject(), "async", True),
        (PlainObject(), "thread", False),
        (functools.partial(asynchronous), "async", True),
        (functools.partial(functools.partial(plain)), "thread", True),
        (functools.partial(with_option, "x"), "thread", True),
        (functools.partial(with_option, "x", delivery=None), "thread", False),
        (functools.partial(AsyncObject()), "async", True),
        (any_number, "async", True),
        (job_and_more, "async", True),
        (optional_delivery, "async", True),
        (further_defaults, "async", True),
        (with_keywords, "async", False),
        (positional, "async", True),
        (list, "thread", False),
    ],
    ids=lambda value: getattr(value, "__qualname__", repr(value)[:30]),
)
def test_a_function_tells_how_it_wants_to_be_called(
    function: Any, kind: str, takes_delivery: bool
) -> None:
    call = Call(function)

    assert (kind, takes_delivery) == (call.kind, call.takes_delivery)
    assert function is call.function


def nothing() -> None: ...
def three(job: Any, delivery: Any, third: Any) -> None: ...
def keywords_only(*, job: Any) -> None: ...
def only_options(**options: Any) -> None: ...


@pytest.mark.parametrize("function", [nothing, three, keywords_only, only_options])
def test_a_function_that_cannot_take_a_job_and_a_delivery_is_refused(function: Any) -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        Call(function)

    assert f"{function.__name__} must take (job) or (job, delivery)" == str(caught.value)


@pytest.mark.parametrize("function", [7, "handle", None], ids=repr)
def test_what_cannot_be_called_is_refused(function: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="cannot be a handler"):
        Call(function)


def test_a_function_with_a_required_keyword_is_refused() -> None:
    def needs_a_keyword(job: Any, *, session: Any) -> None: ...

    with pytest.raises(bee.InvalidOption, match="needs_a_keyword"):
        Call(needs_a_keyword)


async def stream(job: Any) -> AsyncIterator[int]:
    yield 1


def generate(job: Any) -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [stream, generate])
def test_a_generator_function_is_refused_because_calling_it_runs_nothing(function: Any) -> None:
    with pytest.raises(bee.InvalidOption, match=function.__name__):
        Call(function)


def test_a_plain_function_may_run_in_a_process_and_then_takes_the_job_alone() -> None:
    call = Call(plain_alone, process=True)

    assert ("process", False) == (call.kind, call.takes_delivery)


def test_an_async_function_does_not_run_in_a_process() -> None:
    with pytest.raises(bee.InvalidOption, match="asynchronous_alone is async: process=True takes"):
        Call(asynchronous_alone, process=True)


def test_a_function_in_a_process_gets_no_delivery() -> None:
    with pytest.raises(bee.InvalidOption, match=r"plain: .* takes the job alone"):
        Call(plain, process=True)


def test_a_call_says_what_it_calls() -> None:
    assert "<thread handler plain>" == repr(Call(plain))
    assert "<async handler Handling.method>" == repr(Call(Handling().method))
    assert "<process handler plain_alone>" == repr(Call(plain_alone, process=True))


# Who handles what.


def test_a_queue_without_handlers_cannot_be_worked_and_the_error_says_what_to_do() -> None:
    handlers = Handlers(queue)

    with pytest.raises(bee.NoHandler) as caught:
        handlers.check()

    assert not handlers.any
    assert (
        "queue 'mail': nobody handles SendEmail, Resize. "
        "Use @queue.handler for all, or @queue.on(JobClass) for each."
    ) == str(caught.value)


def test_every_class_needs_a_handler_and_the_error_names_those_without() -> None:
    handlers = Handlers(queue)
    handlers.handle(SendEmail, asynchronous)

    with pytest.raises(bee.NoHandler, match="nobody handles Resize"):
        handlers.check()

    handlers.handle(Resize, plain_alone)
    handlers.check()
    assert handlers.any


def test_one_function_may_handle_all() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)

    handlers.check()

    assert handlers.any


def test_a_class_of_another_queue_is_refused() -> None:
    with pytest.raises(bee.InvalidOption) as caught:
        Handlers(queue).handle(Stranger, asynchronous)

    assert "Stranger is not a job of queue 'mail', which takes SendEmail, Resize" == str(
        caught.value
    )


def test_nothing_is_handled_twice() -> None:
    whole, each = Handlers(queue), Handlers(queue)
    whole.handle_all(asynchronous)
    each.handle(SendEmail, asynchronous)

    with pytest.raises(bee.InvalidOption, match="queue 'mail' has its handler already"):
        whole.handle_all(plain)
    with pytest.raises(bee.InvalidOption, match="SendEmail has its handler already"):
        whole.handle(SendEmail, plain)
    with pytest.raises(bee.InvalidOption, match="SendEmail has its handler already"):
        each.handle(SendEmail, plain)
    with pytest.raises(bee.InvalidOption, match="queue 'mail' has its handler already"):
        each.handle_all(plain)


def test_there_is_one_failure_handler() -> None:
    handlers = Handlers(queue)
    handlers.handle_failures(asynchronous)

    with pytest.raises(bee.InvalidOption, match="has its failure handler already"):
        handlers.handle_failures(asynchronous)


def test_the_decorators_of_a_hive_return_the_function_they_were_given() -> None:
    hive = bee.Hive(broker=MemoryBroker())
    whole, each = hive.queue("whole", Jobs), hive.queue("each", Jobs)

    assert asynchronous is whole.handler(asynchronous)
    assert asynchronous is whole.on_failure(asynchronous)
    assert plain_alone is each.on(SendEmail, process=True)(plain_alone)
    whole.handlers.check()


# What a lease becomes.


def lease_of(draft: Draft) -> Lease:
    return Lease(Receipt(draft.id, 1), draft.body, draft.headers, Counters(deliveries=1))


def test_a_lease_is_opened_into_the_job_its_tag_its_rules_and_its_handler() -> None:
    handlers = Handlers(queue)
    handlers.handle(SendEmail, asynchronous)
    handlers.handle(Resize, plain_alone)
    draft = queue.draft(Resize(path="x"), policy=bee.Policy(timeout=5))

    job, tag, rules, call = handlers.open(lease_of(draft))

    assert (Resize(path="x"), "resize.v2", 5.0, plain_alone) == (
        job,
        tag,
        rules.timeout,
        call.function,
    )


def test_a_lease_that_is_no_job_is_a_decode_error_that_names_the_message() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)

    with pytest.raises(bee.DecodeError, match="message 'a' of queue 'mail'"):
        handlers.open(Lease(Receipt("a", 1), b"{}"))


def test_a_policy_that_cannot_be_read_is_a_decode_error_that_names_the_message() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)
    body = queue.codec.encode(email)

    with pytest.raises(bee.DecodeError, match="message 'a' of queue 'mail': cannot read"):
        handlers.open(Lease(Receipt("a", 1), body, {POLICY_HEADER: "?"}))


def test_a_job_of_a_class_that_nobody_handles_is_a_decode_error() -> None:
    class Confused:
        def encode(self, job: SendEmail) -> bytes:
            return b""

        def decode(self, body: bytes) -> Any:
            return Stranger()

    odd = bee.Queue(MemoryBroker(), "mail", SendEmail, codec=Confused())
    handlers = Handlers(odd)
    handlers.handle(SendEmail, asynchronous)

    with pytest.raises(bee.DecodeError, match="Stranger"):
        handlers.open(Lease(Receipt("a", 1), b""))


# Reports of failures.


def test_nobody_hears_of_a_failure_without_a_failure_handler() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)

    assert () == handlers.report(lease_of(queue.draft(email)), Counters(), Note("failed"))


def test_a_report_arrives_as_the_failure_it_is_about() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)
    handlers.handle_failures(plain)
    failed = lease_of(queue.draft(email, id="a", headers={"trace": "t"}))
    counters, note = Counters(deliveries=4, errors=4), Note("failed", "boom")

    [report] = handlers.report(failed, counters, note)
    failure, tag, rules, call = handlers.open(lease_of(report))

    assert {KIND_HEADER: "failure"} == dict(report.headers)
    assert (
        bee.Failure(
            id="a",
            job=email,
            body=failed.body,
            headers={"trace": "t"},
            counters=counters,
            note=note,
        )
        == failure
    )
    assert ("failure", FAILURE_RULES, plain) == (tag, rules, call.function)


def test_a_report_about_bytes_that_are_no_job_has_no_job() -> None:
    handlers = Handlers(queue)
    handlers.handle_failures(plain)

    [report] = handlers.report(Lease(Receipt("a", 1), b"\xff"), Counters(), Note("malformed"))
    failure, *_ = handlers.open(lease_of(report))

    assert (None, b"\xff") == (failure.job, failure.body)


def test_the_failure_of_a_failure_handler_is_not_reported() -> None:
    handlers = Handlers(queue)
    handlers.handle_failures(plain)
    [report] = handlers.report(lease_of(queue.draft(email)), Counters(), Note("failed"))

    assert () == handlers.report(lease_of(report), Counters(), Note("failed"))


def test_two_reports_about_one_job_have_different_ids() -> None:
    handlers = Handlers(queue)
    handlers.handle_failures(plain)
    draft = queue.draft(email, id="a")

    ids = {
        report.id
        for token in (1, 2)
        for report in handlers.report(
            Lease(Receipt("a", token), draft.body), Counters(), Note("failed")
        )
    }

    assert 2 == len(ids)


def test_a_report_that_nobody_here_handles_waits_for_a_worker_that_does() -> None:
    reporting, silent = Handlers(queue), Handlers(queue)
    reporting.handle_failures(plain)
    silent.handle_all(asynchronous)
    [report] = reporting.report(lease_of(queue.draft(email)), Counters(), Note("failed"))

    with pytest.raises(bee.UnknownJob, match="no handler here for bee-kind 'failure'"):
        silent.open(lease_of(report))


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", msgspec.json.encode({"id": 5})])
def test_a_broken_report_is_a_decode_error(body: bytes) -> None:
    handlers = Handlers(queue)
    handlers.handle_failures(plain)

    with pytest.raises(bee.DecodeError, match="not a failure report"):
        handlers.open(Lease(Receipt("a", 1), body, {KIND_HEADER: "failure"}))


def test_an_unknown_kind_of_message_is_an_unknown_job() -> None:
    handlers = Handlers(queue)
    handlers.handle_all(asynchronous)
    handlers.handle_failures(plain)

    with pytest.raises(bee.UnknownJob, match="'chord'"):
        handlers.open(Lease(Receipt("a", 1), b"", {KIND_HEADER: "chord"}))
