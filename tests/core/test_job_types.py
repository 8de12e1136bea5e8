"""What a queue may be declared with: job types of every form, and codecs of the user's own."""

from __future__ import annotations

import gc
import math
import weakref
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, Union

import msgspec
import pytest
from typing_extensions import TypeAliasType

import bee_core as bee
from bee_memory import MemoryBroker
from tests.core.shapes import Tree
from tests.core.support import RecordingBroker, Resize, SendEmail, Stranger

T = TypeVar("T")


def test_two_classes_with_one_tag_are_refused_when_the_queue_is_declared() -> None:
    class One(bee.Job, tag="same"):
        pass

    class Two(bee.Job, tag="same"):
        pass

    with pytest.raises(bee.InvalidOption, match="must have unique `tag` values"):
        bee.Queue(MemoryBroker(), "jobs", One | Two)


def test_two_classes_without_tags_are_refused_when_the_queue_is_declared() -> None:
    class One(msgspec.Struct):
        pass

    class Two(msgspec.Struct):
        pass

    with pytest.raises(bee.InvalidOption, match="One"):
        bee.Queue(MemoryBroker(), "jobs", One | Two)


@pytest.mark.parametrize("form", ["SendEmail", None, 7, SendEmail(to="x"), (SendEmail, Resize)])
def test_what_is_no_type_is_refused_when_the_queue_is_declared(form: Any) -> None:
    with pytest.raises(bee.InvalidOption, match="is not a job type"):
        bee.Queue(MemoryBroker(), "jobs", form)


@dataclass(frozen=True)
class Order:
    """A dataclass with a field that is called like the tag of a Job."""

    type: str
    amount: float


class Plain(msgspec.Struct):
    a: int
    b: Any = None


class OwnTag(msgspec.Struct, tag="own", tag_field="kind"):
    a: int


@pytest.mark.parametrize("job", [Order("book", 1.5), Plain(1, ["x"]), OwnTag(1)])
def test_a_dataclass_or_a_plain_struct_may_be_the_only_job_type(job: Any) -> None:
    codec = bee.JsonCodec(type(job))

    assert job == codec.decode(codec.encode(job))


@pytest.mark.parametrize("job", [Order("book", math.nan), Plain(1, math.nan)])
def test_nan_is_refused_in_a_dataclass_and_a_plain_struct_too(job: Any) -> None:
    with pytest.raises(bee.InvalidPayload, match="is nan, which JSON cannot hold"):
        bee.JsonCodec(type(job)).encode(job)


def test_a_field_called_type_of_a_dataclass_is_not_taken_for_a_tag() -> None:
    with pytest.raises(bee.DecodeError) as caught:
        bee.JsonCodec(Order).decode(b'{"v":1,"job":{"type":"book","amount":"much"}}')

    assert bee.DecodeError is type(caught.value)


def test_an_unknown_tag_in_a_tag_field_of_the_users_own_is_an_unknown_job() -> None:
    with pytest.raises(bee.UnknownJob):
        bee.JsonCodec(OwnTag).decode(b'{"v":1,"job":{"kind":"newer","a":1}}')


Alias = TypeAliasType("Alias", SendEmail | Resize)
Nested = TypeAliasType("Nested", Alias | Tree)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(SendEmail | Resize, id="A | B"),
        pytest.param(Union[SendEmail, Resize], id="Union"),  # noqa: UP007
        pytest.param(Annotated[SendEmail | Resize, "note"], id="Annotated"),
        pytest.param(Annotated[SendEmail, "one"] | Resize, id="Annotated member"),
        pytest.param(Alias, id="type alias"),
        pytest.param(Nested, id="alias of an alias"),
    ],
)
def test_a_union_may_be_written_in_any_way(form: Any) -> None:
    codec: bee.JsonCodec[Any] = bee.JsonCodec(form)

    for job in (SendEmail(to="x"), Resize(path="x")):
        assert job == codec.decode(codec.encode(job))
    with pytest.raises(bee.InvalidPayload):
        codec.encode(Stranger())


# Codecs of the user's own.


class LineCodec:
    """`to subject`, as text. Not total on purpose: it trusts what it reads."""

    def encode(self, job: SendEmail) -> bytes:
        return f"{job.to} {job.subject}".encode()

    def decode(self, body: bytes) -> SendEmail:
        to, subject = body.decode().split(" ", 1)
        return SendEmail(to=to, subject=subject)


async def test_a_codec_of_the_users_own_is_used_both_ways() -> None:
    broker = MemoryBroker()
    queue = bee.Queue(broker, "mail", SendEmail, codec=LineCodec())

    await queue.send(SendEmail(to="ada", subject="hello you"), id="a")
    [lease] = await broker.lease("mail", limit=1, duration=30, holder="test")

    assert b"ada hello you" == lease.body
    assert SendEmail(to="ada", subject="hello you") == queue.decode("a", lease.body)


@pytest.mark.parametrize("body", [b"nospace", b"\xff\xff"])
def test_a_codec_that_is_not_total_gives_a_decode_error_that_names_the_message(
    body: bytes,
) -> None:
    queue = bee.Queue(MemoryBroker(), "mail", SendEmail, codec=LineCodec())

    with pytest.raises(bee.DecodeError) as caught:
        queue.decode("the-id", body)

    assert ("mail", "the-id") == (caught.value.queue, caught.value.id)
    assert isinstance(caught.value.__cause__, ValueError)


class FailingCodec:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def encode(self, job: SendEmail) -> bytes:
        raise self.error

    def decode(self, body: bytes) -> SendEmail:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a"),
        RecursionError(),
        MemoryError(),
        StopIteration(),
        OSError(5, "io"),
        bee.InvalidPayload("not even this one"),
        bee.PermanentError("nor this one"),
    ],
    ids=repr,
)
def test_whatever_a_codec_raises_at_decoding_is_a_decode_error(error: Exception) -> None:
    queue = bee.Queue(MemoryBroker(), "mail", SendEmail, codec=FailingCodec(error))

    with pytest.raises(bee.DecodeError) as caught:
        queue.decode("the-id", b"")

    assert error is caught.value.__cause__
    assert type(error).__name__ in str(caught.value)


def test_a_codec_may_say_itself_that_a_job_is_unknown() -> None:
    error = bee.UnknownJob("newer than this program", known=["a"])
    queue = bee.Queue(MemoryBroker(), "mail", SendEmail, codec=FailingCodec(error))

    with pytest.raises(bee.UnknownJob) as caught:
        queue.decode("the-id", b"")

    assert ("mail", "the-id", ("a",)) == (
        caught.value.queue,
        caught.value.id,
        caught.value.known,
    )


async def test_whatever_a_codec_raises_at_encoding_is_an_invalid_payload() -> None:
    broker = RecordingBroker()
    queue = bee.Queue(broker, "mail", SendEmail, codec=FailingCodec(KeyError("a")))

    with pytest.raises(bee.InvalidPayload):
        await queue.send(SendEmail(to="x"))

    assert [] == broker.calls


# What the garbage collector has to do with jobs.


class Plain(msgspec.Struct):
    """A struct that is no job."""

    size: int = 0


class Referable(msgspec.Struct, weakref=True):
    """One that can be referred to weakly."""

    size: int = 0


class Open(msgspec.Struct, dict=True):
    """One with a dict."""

    size: int = 0


class Mixin:
    """Adds a method."""

    def twice(self) -> str:
        return 2 * self.__class__.__name__


def test_jobs_are_none_of_the_garbage_collectors_business() -> None:
    class Tags(bee.Job):
        names: list[str]

    class MoreTags(Tags):
        others: list[str]

    assert not gc.is_tracked(Tags(["a"]))
    assert not gc.is_tracked(MoreTags(["a"], ["b"]))


def test_a_job_class_may_ask_for_the_garbage_collector() -> None:
    class Tags(bee.Job, gc=True):
        names: list[str]

    assert gc.is_tracked(Tags(["a"]))


def test_a_job_may_be_referred_to_weakly() -> None:
    class Tags(bee.Job, weakref=True):
        names: list[str]

    class MoreTags(Tags):
        others: list[str]

    tags = MoreTags(["a"], ["b"])

    assert tags is weakref.ref(tags)()


def test_a_job_may_have_a_dict() -> None:
    class Tags(bee.Job, dict=True):
        names: list[str]

    assert {} == vars(Tags(["a"]))


@pytest.mark.parametrize("other", [Plain, Referable, Open, Mixin])
@pytest.mark.parametrize("job_first", [True, False])
def test_a_job_class_may_derive_from_other_classes_too(other: type, job_first: bool) -> None:
    bases = (bee.Job, other) if job_first else (other, bee.Job)

    kind = type(bee.Job)("Both", bases, {"__annotations__": {"number": int}, "number": 0})

    assert 3 == kind(number=3).number


def test_a_job_class_may_be_generic() -> None:
    class Holding(bee.Job, Generic[T]):
        held: T

    assert not gc.is_tracked(Holding([1]))
