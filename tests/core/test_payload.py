"""A job that would not come back as it was sent is refused, before any I/O."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

import bee_core as bee
from bee_memory import MemoryBroker
from tests.core.shapes import Anything, Everything, Measure
from tests.core.support import Jobs, RecordingBroker, Resize, SendEmail, Stranger

wrong: Any = object()
"""For what a type checker would refuse."""


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def circle() -> list[object]:
    ring: list[object] = []
    ring.append(ring)
    return ring


async def refusal(job: Any) -> str:
    """What the error says when the job is sent; the broker must not have heard of it."""
    broker = RecordingBroker()
    queue: bee.Queue[Any] = bee.Queue(broker, "everything", Everything)

    with pytest.raises(bee.InvalidPayload) as caught:
        await queue.send(job)

    assert [] == broker.calls
    return str(caught.value)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (Measure(value=math.nan), "job.value is nan, which JSON cannot hold"),
        (Measure(value=math.inf), "job.value is inf, which JSON cannot hold"),
        (Measure(value=-math.inf), "job.value is -inf, which JSON cannot hold"),
        (Measure(maybe=math.nan), "job.maybe is nan, which JSON cannot hold"),
        (Measure(series=[1.0, math.inf]), "job.series.1 is inf, which JSON cannot hold"),
        (Measure(named={"a": math.nan}), "job.named.a is nan, which JSON cannot hold"),
        (Measure(weights={math.nan: "a"}), "job.weights key is nan, which JSON cannot hold"),
        (Resize(path="x", scale=math.nan), "job.scale is nan, which JSON cannot hold"),
        (Anything(value=math.nan), "job.value is nan, which JSON cannot hold"),
        (Anything(value={"a": [0, math.inf]}), "job.value.a.1 is inf, which JSON cannot hold"),
        (Anything(value=(0, math.nan)), "job.value.1 is nan, which JSON cannot hold"),
        (Anything(extras={"a": math.nan}), "job.extras.a is nan, which JSON cannot hold"),
    ],
)
async def test_a_number_that_json_cannot_hold_is_refused_and_its_place_is_named(
    job: Everything, expected: str
) -> None:
    assert expected == await refusal(job)


@pytest.mark.parametrize(
    "job",
    [
        SendEmail(to="\ud800"),
        Resize(path="a\udfffb"),
        Anything(value={"k": ["\udfff"]}),
        Anything(value={"\ud800": 1}),
    ],
    ids=lambda job: type(job).__name__,
)
async def test_text_that_utf_8_cannot_hold_is_refused(job: Everything) -> None:
    said = await refusal(job)

    assert said.startswith(f"{type(job).__name__} cannot be written as JSON")
    assert "surrogates not allowed" in said


@pytest.mark.parametrize(
    "job",
    [Resize(path="x", width=10**4300), Anything(value=[-(10**4300)])],
    ids=lambda job: type(job).__name__,
)
async def test_a_number_of_more_than_4300_digits_is_refused(job: Everything) -> None:
    said = await refusal(job)

    assert type(job).__name__ in said
    assert "4300 digits" in said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(nested(64), "is nested more than 64 deep", id="65 levels"),
        pytest.param(nested(100_000), "Anything is nested too deeply", id="100,000 levels"),
        pytest.param(circle(), "Anything is nested too deeply", id="a circle"),
    ],
)
async def test_a_job_that_is_nested_too_deeply_is_refused(value: object, expected: str) -> None:
    assert expected in await refusal(Anything(value=value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(wrong, "type object", id="object"),
        pytest.param({"a": [wrong]}, "type object", id="nested object"),
        pytest.param(SendEmail, "type JobMeta", id="class"),
        pytest.param(nested, "type function", id="function"),
    ],
)
async def test_an_object_that_cannot_be_written_is_refused_and_its_type_is_named(
    value: object, expected: str
) -> None:
    said = await refusal(Anything(value=value))

    assert "Anything cannot be written as JSON" in said
    assert expected in said


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (SendEmail(to=wrong), "Encoding objects of type object"),
        (SendEmail(to=7), "Expected `str`, got `int` - at `$.job.to`"),  # type: ignore[arg-type]
        (SendEmail(to=None), "Expected `str`, got `null` - at `$.job.to`"),  # type: ignore[arg-type]
        (Resize("x", width=True), "Expected `int`, got `bool` - at `$.job.width`"),
        (Resize("x", width=1.5), "Expected `int`, got `float` - at `$.job.width`"),  # type: ignore[arg-type]
        (Resize("x", width="1"), "Expected `int`, got `str` - at `$.job.width`"),  # type: ignore[arg-type]
    ],
)
async def test_a_field_of_the_wrong_type_is_refused_and_named(
    job: Everything, expected: str
) -> None:
    said = await refusal(job)

    assert f"{type(job).__name__} cannot be written as JSON" in said
    assert expected in said


@pytest.mark.parametrize("job", [Stranger(), "a text", None, 7])
async def test_a_job_of_another_queue_is_refused_with_the_tags_of_this_one(job: object) -> None:
    assert (
        f"{type(job).__name__} is not a job of this queue, which takes "
        "anything, measure, resize.v2, rich, send_email, tree"
    ) == await refusal(job)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(SendEmail(to=b"ada"), id="bytes as text"),  # type: ignore[arg-type]
        pytest.param(Measure(value=2**60 + 1), id="large int as float"),
        pytest.param(Anything(value={1, 2}), id="set"),
        pytest.param(Anything(value=datetime(2030, 1, 1, tzinfo=UTC)), id="datetime"),
        pytest.param(Anything(value=SendEmail(to="x")), id="struct"),
        pytest.param(Anything(value={1: "a"}), id="whole number as key"),
    ],
)
async def test_what_json_would_silently_change_is_refused(job: Everything) -> None:
    assert type(job).__name__ in await refusal(job)


async def test_a_bad_job_among_good_ones_stops_its_whole_batch() -> None:
    broker = RecordingBroker()
    queue: bee.Queue[Everything] = bee.Queue(broker, "everything", Everything)

    with pytest.raises(bee.InvalidPayload):
        await queue.send_many([SendEmail(to="x"), Measure(value=math.nan)])

    assert [] == broker.calls


async def test_a_job_that_is_too_large_is_refused_with_both_sizes() -> None:
    broker = RecordingBroker()
    queue: bee.Queue[Jobs] = bee.Queue(broker, "jobs", Jobs, max_bytes=100)
    job = SendEmail(to="x" * 200)
    size = len(queue.codec.encode(job))

    with pytest.raises(bee.PayloadTooLarge) as caught:
        await queue.send(job)

    assert [] == broker.calls
    assert f"a SendEmail of {size} bytes; queue 'jobs' takes at most 100" in str(caught.value)


async def test_a_job_as_large_as_the_queue_allows_is_sent() -> None:
    job = SendEmail(to="x" * 200)
    size = len(bee.JsonCodec(SendEmail).encode(job))
    fits = bee.Queue(MemoryBroker(), "jobs", SendEmail, max_bytes=size)
    short = bee.Queue(MemoryBroker(), "jobs", SendEmail, max_bytes=size - 1)

    assert size == len(fits.draft(job).body)
    with pytest.raises(bee.PayloadTooLarge):
        short.draft(job)


def test_a_queue_takes_256_kib_unless_told_otherwise() -> None:
    queue = bee.Queue(MemoryBroker(), "jobs", SendEmail)
    envelope = len(queue.codec.encode(SendEmail(to="")))

    assert 262_144 == len(queue.draft(SendEmail(to="x" * (262_144 - envelope))).body)

    with pytest.raises(bee.PayloadTooLarge, match=r"262145 bytes.*262144"):
        queue.draft(SendEmail(to="x" * (262_145 - envelope)))
