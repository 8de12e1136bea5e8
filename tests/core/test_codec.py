"""Jobs to bytes and back: without loss, whatever the bytes, and across versions of a program."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import bee_core as bee
from bee_core.codec import peek_kind
from bee_memory import MemoryBroker
from tests.core.shapes import TAGS, Anything, Everything, any_job, json_values
from tests.core.support import Jobs, Resize, SendEmail

everything: bee.Queue[Everything] = bee.Queue(MemoryBroker(), "everything", Everything)
jobs: bee.Queue[Jobs] = bee.Queue(MemoryBroker(), "jobs", Jobs)
codec = everything.codec


# There and back.


@given(any_job)
@example(SendEmail(to="\0\x7f\u2028\U0001f41d"))
@example(Resize(path="", width=2**63))
@example(Resize(path="", width=-(2**64)))
@example(Resize(path="", width=10**4299))
@example(Anything(value=2**200))
def test_every_job_of_a_union_comes_back_as_it_was_sent(job: Everything) -> None:
    back = codec.decode(codec.encode(job))

    assert job == back
    assert type(job) is type(back)


def test_the_envelope_is_json_with_a_version_and_a_tag() -> None:
    body = jobs.codec.encode(Resize(path="x.png"))

    assert b'{"v":1,"job":{"type":"resize.v2","path":"x.png","width":200,"scale":null}}' == body


def test_a_job_may_be_nested_64_deep() -> None:
    value: object = 0
    for _ in range(63):  # the job itself is the first level
        value = [value]
    job = Anything(value=value)

    assert job == codec.decode(codec.encode(job))


# For any bytes: a job or a DecodeError.


@given(st.binary())
def test_any_bytes_are_a_job_or_a_decode_error(body: bytes) -> None:
    _decode_or_refuse(body)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A valid envelope with some of its bytes cut out, replaced or doubled."""
    body = codec.encode(draw(any_job))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 8)))
        new = draw(st.binary(max_size=4) | st.just(body[start:end] * 2))
        body = body[:start] + new + body[end:]
    return body


@given(mutations())
def test_a_damaged_envelope_is_a_job_or_a_decode_error(body: bytes) -> None:
    _decode_or_refuse(body)


@pytest.mark.parametrize("kind", [b"unknown", b"anything"])
def test_to_say_what_is_wrong_takes_little_memory(kind: bytes) -> None:
    """Whatever is in a job that cannot be read, it is not built up only to be thrown away."""
    body = b'{"v":1,"job":{"x":[' + b"[]," * 50_000 + b'[]],"type":"' + kind + b'","value":0.}}'

    tracemalloc.start()
    try:
        with pytest.raises(bee.DecodeError):
            codec.decode(body)
        assert peek_kind(body) in (None, kind.decode())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * len(body)


@given(any_job, st.data())
def test_a_truncated_envelope_is_a_decode_error(job: Everything, data: st.DataObject) -> None:
    body = codec.encode(job)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]

    with pytest.raises(bee.DecodeError):
        everything.decode("a", cut)


@given(json_values, json_values, st.sampled_from([b"v", b"job", b"type", b"x"]))
def test_any_json_is_a_job_or_a_decode_error(one: object, two: object, key: bytes) -> None:
    encode = msgspec.json.encode

    _decode_or_refuse(encode(one))
    _decode_or_refuse(b'{"v":1,"job":%b}' % encode(one))
    _decode_or_refuse(b'{"v":%b,"job":%b}' % (encode(one), encode(two)))
    _decode_or_refuse(b'{"v":1,"job":{"type":%b,"%b":%b}}' % (encode(one), key, encode(two)))


_RESIZE = b'{"v":1,"job":{"type":"resize.v2","path":"x","width":%b}}'
_ANYTHING = b'{"v":1,"job":{"type":"anything","value":%b}}'


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"{}", id="empty object"),
        pytest.param(b"not json", id="text"),
        pytest.param(b"\x1f\x8b\x08\x00\x00\x00\x00\x00", id="gzip"),
        pytest.param(b"\xff\xfe{\x00}\x00", id="UTF-16"),
        pytest.param(b'\xef\xbb\xbf{"v":1}', id="byte order mark"),
        pytest.param(b'{"v":1,"job":{"type":"send_email","to":"\xc3\x28"}}', id="bad UTF-8"),
        pytest.param(b'{"v":1,"job":{"type":"send_email","to":"\xed\xa0\x80"}}', id="surrogate"),
        pytest.param(b'{"v":1,"job":{"type":"send_email","to":"\\ud800"}}', id="\\u surrogate"),
        pytest.param(b'{"v":1,"job":{"type":"send_email","to":"x"}} {}', id="trailing"),
        pytest.param(b'{"job":{"type":"send_email","to":"x"}}', id="no version"),
        pytest.param(b'{"v":"1","job":{"type":"send_email","to":"x"}}', id="version is text"),
        pytest.param(b'{"v":null,"job":{"type":"send_email","to":"x"}}', id="version is null"),
        pytest.param(b'{"v":1}', id="no job"),
        pytest.param(b'{"v":1,"job":null}', id="job is null"),
        pytest.param(b'{"v":1,"job":[]}', id="job is an array"),
        pytest.param(b'{"v":1,"job":{}}', id="no tag"),
        pytest.param(b'{"v":1,"job":{"to":"x"}}', id="no tag but fields"),
        pytest.param(b'{"v":1,"job":{"type":7,"to":"x"}}', id="tag is a number"),
        pytest.param(b'{"v":1,"job":{"type":null,"to":"x"}}', id="tag is null"),
        pytest.param(b'{"v":1,"job":{"type":"send_email"}}', id="missing field"),
        pytest.param(b'{"v":1,"job":{"type":"send_email","to":7}}', id="wrong type"),
        pytest.param(_RESIZE % b"1.5", id="not whole"),
        pytest.param(_RESIZE % b"true", id="boolean"),
        pytest.param(_RESIZE % b"1e400", id="too large for a float"),
        pytest.param(_RESIZE % (b"9" * 5000), id="5000 digits"),
        pytest.param(_RESIZE % (b"-" + b"9" * 100_000), id="100000 digits"),
        pytest.param(_ANYTHING % b"NaN", id="NaN"),
        pytest.param(_ANYTHING % b"Infinity", id="Infinity"),
        pytest.param(_ANYTHING % b"1e999", id="1e999"),
        pytest.param(_ANYTHING % (b"[" * 100_000), id="nested and open"),
        pytest.param(_ANYTHING % (b"[" * 100_000 + b"]" * 100_000), id="nested 100000 deep"),
        pytest.param(_ANYTHING % (b'{"a":' * 50_000 + b"1" + b"}" * 50_000), id="nested objects"),
    ],
)
def test_what_is_no_job_is_a_decode_error_that_names_the_message_and_the_known_tags(
    body: bytes,
) -> None:
    with pytest.raises(bee.DecodeError) as caught:
        everything.decode("the-id", body)

    error = caught.value
    assert bee.DecodeError is type(error)
    assert ("everything", "the-id") == (error.queue, error.id)
    assert TAGS == error.known
    assert "message 'the-id' of queue 'everything': " in str(error)
    assert "known tags: anything, measure, resize.v2, rich, send_email, tree" in str(error)
    assert error.problem in str(error)


def test_an_unknown_tag_is_an_unknown_job_that_names_it_and_the_known_ones() -> None:
    with pytest.raises(bee.UnknownJob) as caught:
        jobs.decode("the-id", b'{"v":1,"job":{"type":"resize.v3","path":"x.png"}}')

    assert (
        "message 'the-id' of queue 'jobs': unknown job kind 'resize.v3' "
        "(known tags: resize.v2, send_email)" == str(caught.value)
    )


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"v":2,"job":{"type":"send_email","to":"x"}}', id="same layout"),
        pytest.param(b'{"v":2,"job":{"type":"unheard_of"}}', id="unknown tag"),
        pytest.param(b'{"v":2,"job":{"type":"send_email","to":["x"]}}', id="other fields"),
        pytest.param(b'{"v":2,"payload":{"kind":"send_email"}}', id="other layout"),
        pytest.param(b'{"v":2,"job":["send_email","x"]}', id="job is an array"),
    ],
)
def test_a_newer_envelope_is_an_unknown_job_whatever_it_holds(body: bytes) -> None:
    with pytest.raises(bee.UnknownJob) as caught:
        jobs.decode("the-id", body)

    assert "envelope version 2, this program knows 1" in str(caught.value)
    assert ("jobs", "the-id") == (caught.value.queue, caught.value.id)


def test_an_error_of_a_bare_codec_names_no_message() -> None:
    with pytest.raises(bee.DecodeError) as caught:
        jobs.codec.decode(b"{}")

    assert (None, None) == (caught.value.queue, caught.value.id)
    assert "message" not in str(caught.value)


def test_duplicate_keys_are_read_like_any_other_json_the_last_one_counts() -> None:
    body = b'{"v":1,"job":{"type":"send_email","to":"a","to":"b"}}'

    assert SendEmail(to="b") == jobs.decode("a", body)


# Change over time.


def test_a_class_may_be_renamed_while_it_keeps_its_tag() -> None:
    class Before(bee.Job, tag="mail"):
        to: str

    class After(bee.Job, tag="mail"):
        to: str

    assert After(to="x") == bee.JsonCodec(After).decode(bee.JsonCodec(Before).encode(Before("x")))


def test_without_a_tag_the_wire_name_is_the_class_name_in_snake_case() -> None:
    class HTTPRequestV2(bee.Job):
        pass

    assert ("http_request_v2",) == bee.JsonCodec(HTTPRequestV2).known
    assert ("resize.v2", "send_email") == bee.JsonCodec(Jobs).known


def test_a_field_that_was_added_with_a_default_is_filled_in() -> None:
    class Old(bee.Job, tag="x"):
        a: int

    class New(bee.Job, tag="x"):
        a: int
        b: str = "default"

    assert New(1, "default") == bee.JsonCodec(New).decode(bee.JsonCodec(Old).encode(Old(1)))


def test_a_field_that_this_program_does_not_know_is_left_out() -> None:
    class Old(bee.Job, tag="x"):
        a: int

    class New(bee.Job, tag="x"):
        a: int
        b: str = "default"

    assert Old(1) == bee.JsonCodec(Old).decode(bee.JsonCodec(New).encode(New(1, "other")))


def test_a_class_may_ask_for_unknown_fields_to_be_refused() -> None:
    class Strict(bee.Job, forbid_unknown_fields=True):
        a: int

    with pytest.raises(bee.DecodeError, match="unknown field `b`"):
        bee.JsonCodec(Strict).decode(b'{"v":1,"job":{"type":"strict","a":1,"b":2}}')


def test_a_rule_of_the_users_own_that_fails_at_decoding_is_a_decode_error() -> None:
    class Even(bee.Job):
        number: int

        def __post_init__(self) -> None:
            {0: None}[self.number % 2]  # a KeyError, which msgspec does not translate

    with pytest.raises(bee.DecodeError):
        bee.Queue(MemoryBroker(), "even", Even).decode(
            "a", b'{"v":1,"job":{"type":"even","number":1}}'
        )


def _decode_or_refuse(body: bytes) -> None:
    """Decode; only a DecodeError that names the message may come out."""
    try:
        job: object = everything.decode("the-id", body)
    except bee.DecodeError as error:
        job, named = None, (error.queue, error.id)
    else:
        named = ("everything", "the-id")
    assert job is None or isinstance(job, Everything)
    assert ("everything", "the-id") == named
