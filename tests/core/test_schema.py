"""What jobs that wait survive: the verdict of `compare` against what the codec really does."""

from __future__ import annotations

import datetime as dt
import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

import bee_core as bee
from bee_core.codec import JsonCodec
from bee_core.schema import compare, schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Shade(enum.Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(msgspec.Struct, frozen=True):
    x: int
    y: int = 0


class Spot(msgspec.Struct, frozen=True):
    """A point, and more that may be left out."""

    x: float
    y: float = 0
    z: float = 0


class ClosedPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    x: int


class Row(msgspec.Struct, frozen=True, array_like=True):
    x: int
    y: int = 0


class ClosedRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    x: int


class LongRow(msgspec.Struct, frozen=True, array_like=True):
    x: int
    y: int = 0
    z: str = ""


class Cat(msgspec.Struct, frozen=True, tag="cat"):
    name: str


class Dog(msgspec.Struct, frozen=True, tag="dog"):
    name: str
    age: int = 1


class Tree(msgspec.Struct, frozen=True):
    children: list[Tree] = []


class NumberedTree(msgspec.Struct, frozen=True):
    children: list[NumberedTree] = []
    number: int = 0


class NamedTree(msgspec.Struct, frozen=True):
    name: str
    children: list[NamedTree] = []


class Pair(NamedTuple):
    first: int
    second: int = 0


class Typed(TypedDict, total=False):
    x: int


@dataclass(frozen=True)
class Data:
    x: int = 0


NOW = dt.datetime(2026, 1, 2, 3, 4, 5)
AWARE = NOW.replace(tzinfo=dt.UTC)
UUID_1 = UUID(int=1)

TYPES: list[tuple[Any, Sequence[Any]]] = [
    (Any, [None, 1, "a", [1], {"a": 1}, 1.5, True]),
    (None, [None]),
    (bool, [True]),
    (int, [-(10**30), -1, 0, 1, 2, 3, 5, 10**30]),
    (int | None, [-1, 0, 2, 10**12, None]),
    (float, [-1.5, 0.0, 2.5, 1e300]),
    (int | float, [-3, 7, 2.5]),
    (Annotated[int, Meta(ge=0)], [0, 1, 2, 10**30]),
    (Annotated[int, Meta(gt=-1)], [0, 1, 2, 10**30]),
    (Annotated[int, Meta(gt=0)], [1, 2, 3, 10**30]),
    (Annotated[int, Meta(ge=0, le=5)], [0, 1, 2, 5]),
    (Annotated[int, Meta(ge=0, lt=6)], [0, 1, 2, 5]),
    (Annotated[int, Meta(multiple_of=2)], [-2, 0, 2, 10**12]),
    (Annotated[int, Meta(multiple_of=4)], [-4, 0, 4, 10**12]),
    (Annotated[float, Meta(ge=0)], [0.0, 1e300, 0.5]),
    (Annotated[float, Meta(gt=0)], [5e-324, 1e300, 0.5]),
    (Annotated[float, Meta(gt=0, lt=1)], [5e-324, 0.5, 0.999]),
    (Literal[1] | float, [1, 2.5, 0.5, -1.5]),
    (Level, [Level.LOW, Level.HIGH]),
    (Rights, [Rights.READ, Rights.WRITE, Rights.READ | Rights.WRITE]),
    (Literal[1, 5], [1, 5]),
    (Literal[1, 2, 5], [1, 2, 5]),
    (Literal[0, -7], [0, -7]),
    (Decimal, [Decimal("1.50"), Decimal(-3)]),
    (Decimal | int, [Decimal("1.5"), 7, -7, 10**30]),
    (str, ["", "a", "7", "red", "x" * 99]),
    (str | int, ["", "a", -9, 10**30]),
    (str | None, ["", "x" * 99, None]),
    (Annotated[str, Meta(max_length=5)], ["", "a", "xxxxx"]),
    (Annotated[str, Meta(min_length=1)], ["a", "x" * 99]),
    (Annotated[str, Meta(min_length=1, max_length=5)], ["a", "xxxxx"]),
    (Annotated[str, Meta(pattern="^[a-z]+$")], ["a", "x" * 99]),
    (Annotated[str, Meta(pattern="^[a-z]*$")], ["", "a", "x" * 99]),
    (Literal["red", "blue"], ["red", "blue"]),
    (Literal["red"], ["red"]),
    (Literal["red", 1, None], ["red", 1, None]),
    (Colour, list(Colour)),
    (Shade, list(Shade)),
    (Colour | None, [*Colour, None]),
    (dt.datetime, [NOW, AWARE]),
    (Annotated[dt.datetime, Meta(tz=True)], [AWARE]),
    (Annotated[dt.datetime, Meta(tz=False)], [NOW]),
    (dt.date, [NOW.date()]),
    (dt.time, [NOW.time(), AWARE.timetz()]),
    (Annotated[dt.time, Meta(tz=True)], [AWARE.timetz()]),
    (dt.timedelta, [dt.timedelta(days=1, seconds=2)]),
    (UUID, [UUID_1]),
    (bytes, [b"", b"abc", b"x" * 50]),
    (Annotated[bytes, Meta(max_length=1)], [b"", b"a"]),
    (Annotated[bytes, Meta(max_length=3)], [b"", b"abc"]),
    (list[int], [[], [-1], [1, 2, 3], [10**12] * 20]),
    (list[float], [[], [-1.5], [1.5, 2.5, 3.5], [0.5] * 20]),
    (list, [[], ["a", None], [1] * 20]),
    (set[int], [set(), {1}, {1, 2, 3, 4, 5}]),
    (tuple[int, ...], [(), (1,), (1, 2, 3, 4, 5)]),
    (tuple[int, int], [(1, -2)]),
    (tuple[int, str], [(1, "a")]),
    (tuple[int, int, int], [(1, 2, -3)]),
    (Annotated[list[int], Meta(max_length=2)], [[], [-1, 2]]),
    (Annotated[list[int], Meta(min_length=2, max_length=2)], [[1, -2]]),
    (Pair, [Pair(1), Pair(-2, 3)]),
    (Row, [Row(1), Row(-2, 3)]),
    (ClosedRow, [ClosedRow(-1)]),
    (LongRow, [LongRow(-1, 2, "c")]),
    (dict[str, int], [{}, {"x": -1}, {"red": 1, "b": 2}]),
    (dict[str, float], [{}, {"x": -1.5}, {"a": 1, "b": 2}]),
    (dict[int, int], [{}, {-1: 2}, {1: 1, 2: 2}]),
    (dict[Literal["x"], int], [{}, {"x": -2}]),
    (dict[Colour, int], [{}, {Colour.RED: -2}, dict.fromkeys(Colour, 1)]),
    (dict[UUID, int], [{}, {UUID_1: -2}, {UUID_1: 1, UUID(int=2): 2}]),
    (dict, [{}, {"a": "b"}, {"a": 1, "b": None}]),
    (Annotated[dict[str, int], Meta(max_length=1)], [{}, {"red": -1}, {"zz": 0}]),
    (Point, [Point(-1), Point(2, 3)]),
    (Spot, [Spot(1.5), Spot(1.5, 2.5, 3.5)]),
    (ClosedPoint, [ClosedPoint(-1)]),
    (Typed, [{}, {"x": 1}]),
    (Data, [Data(), Data(-1)]),
    (Cat, [Cat("a")]),
    (Dog, [Dog("a"), Dog("b", -2)]),
    (Cat | Dog, [Cat("a"), Dog("a")]),
    (Cat | None, [Cat("a"), None]),
    (Cat | int, [Cat("a"), -1, 10**30]),
    (Tree, [Tree(), Tree([Tree([Tree()])])]),
    (NumberedTree, [NumberedTree(), NumberedTree([NumberedTree([], 3)])]),
    (NamedTree, [NamedTree("a"), NamedTree("a", [NamedTree("b")])]),
    (list[Point], [[], [Point(1), Point(-2, 3)]]),
    (list[Spot | None], [[], [Spot(1.5), None]]),
    (dict[str, Point], [{}, {"x": Point(1)}, {"a": Point(1), "b": Point(2)}]),
]


def job(form: Any) -> Any:
    """A job class with one field of that type."""
    return type(bee.Job)(
        "Work", (bee.Job,), {"__annotations__": {"x": form}, "__module__": __name__}
    )


CLASSES = [(form, job(form), samples) for form, samples in TYPES]
SCHEMAS = [schema_of(kind) for _, kind, _ in CLASSES]
CODECS: list[JsonCodec[Any]] = [JsonCodec(kind) for _, kind, _ in CLASSES]
BODIES = [
    [codec.encode(kind(sample)) for sample in samples]
    for codec, (_, kind, samples) in zip(CODECS, CLASSES, strict=True)
]


def survives(codec: JsonCodec[Any], body: bytes) -> bool:
    try:
        codec.decode(body)
    except bee.DecodeError:
        return False
    return True


@pytest.mark.parametrize("new", range(len(TYPES)), ids=lambda n: str(TYPES[n][0])[:50])
def test_what_is_fine_is_read_and_what_breaks_is_not(new: int) -> None:
    """Every type after every other: 6,000 changes of a field."""
    wrong = []
    for old in range(len(TYPES)):
        found = compare(SCHEMAS[old], SCHEMAS[new])
        read = [survives(CODECS[new], body) for body in BODIES[old]]
        if not found and not all(read):
            wrong.append(f"{TYPES[old][0]}: called fine, but some are not read")
        if any(change.certain for change in found) and all(read):
            wrong.append(f"{TYPES[old][0]}: all were read, in spite of {[*map(str, found)]}")

    assert [] == wrong


@pytest.mark.parametrize("which", range(len(TYPES)), ids=lambda n: str(TYPES[n][0])[:50])
def test_no_change_is_fine_and_the_schema_is_plain_json(which: int) -> None:
    again = json.loads(json.dumps(SCHEMAS[which]))

    assert again == SCHEMAS[which]
    assert [] == compare(SCHEMAS[which], again)
    assert json.dumps(schema_of(CLASSES[which][1])) == json.dumps(SCHEMAS[which])


SCALARS = st.sampled_from(
    [int, str, float, bool, None, dt.datetime, Decimal, bytes, Colour, Literal["red"], Point, Any]
)
FORMS: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),
        inner.map(lambda t: dict[str, t]),
        st.tuples(inner, inner).map(lambda ts: tuple[ts]),
        inner.map(lambda t: t | None if t is not None else None),
    ),
    max_leaves=4,
)


def values(form: Any) -> st.SearchStrategy[Any]:
    if form is Any:
        return st.one_of(st.none(), st.integers(), st.text(max_size=3))
    if form is bytes:
        return st.binary(max_size=5)
    if form is Point:
        return st.builds(Point, st.integers(), st.integers())
    if form is dt.datetime:
        return st.sampled_from([NOW, AWARE])
    if form is Decimal:
        return st.decimals(allow_nan=False, allow_infinity=False, places=2)
    if form is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if form is str:
        return st.text(max_size=5)
    if form is None:
        return st.none()
    arguments = getattr(form, "__args__", ())
    match getattr(form, "__origin__", None):
        case origin if origin is list:
            return st.lists(values(arguments[0]), max_size=3)
        case origin if origin is dict:
            return st.dictionaries(st.text(max_size=3), values(arguments[1]), max_size=3)
        case origin if origin is tuple:
            return st.tuples(*map(values, arguments))
    if type(None) in arguments:
        return st.one_of(st.none(), *(values(a) for a in arguments if a is not type(None)))
    return st.from_type(form)


@settings(max_examples=300, deadline=None)
@given(st.data(), FORMS, FORMS)
def test_nothing_that_is_called_fine_is_ever_refused(
    data: st.DataObject, old: Any, new: Any
) -> None:
    before, after = job(old), job(new)
    found = compare(schema_of(before), schema_of(after))
    try:
        body = JsonCodec(before).encode(before(data.draw(values(old))))
    except bee.InvalidPayload:  # text that UTF-8 cannot hold, and the like
        return

    assert found or survives(JsonCodec(after), body)


# Whole classes.


class SendEmail(bee.Job):
    to: str
    subject: str = ""


def change(new: Any, old: Any = SendEmail) -> list[str]:
    """What is said of a change."""
    return [str(found) for found in compare(schema_of(old), schema_of(new))]


NO_FIELDS: Mapping[str, Any] = {}


def made(name: str = "SendEmail", fields: Mapping[str, Any] = NO_FIELDS, **config: Any) -> Any:
    """A job class with these fields; a tuple is a type and a default."""
    types = {field: form[0] if isinstance(form, tuple) else form for field, form in fields.items()}
    defaults = {field: form[1] for field, form in fields.items() if isinstance(form, tuple)}
    space = {"__annotations__": types, "__module__": __name__} | defaults
    return type(bee.Job)(name, (bee.Job,), space, **config)


SAME: dict[str, Any] = {"to": str, "subject": (str, "")}
KEEP = "keep its class until no such job is left"
BOTH = "allow both for a while: a union of the old type and the new one"


@pytest.mark.parametrize(
    "new",
    [
        made(fields=SAME),
        made(fields=SAME | {"cc": (str | None, None)}),
        made(fields=SAME | {"cc": (list[str], [])}),
        made(fields={"to": str}),
        made(fields={}),
        made(fields={"to": str | list[str], "subject": (str, "?")}),
        made(fields={"to": str | None, "subject": (Any, None)}),
        made("SendMail", SAME, tag="send_email"),
        made(fields=SAME, forbid_unknown_fields=True),
        made(fields=SAME) | made("Resize", {"width": int}),
    ],
    ids=str,
)
def test_widening_is_fine(new: Any) -> None:
    assert [] == change(new)


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (
            made("Resize"),
            "this kind is gone (there are: resize); keep its class until no such job is left",
        ),
        (
            made(fields=SAME, tag="send_email.v2"),
            'the tag of SendEmail was "send_email" and is "send_email.v2"; '
            'say tag="send_email", or keep the old class beside it',
        ),
        (
            made(fields=SAME | {"cc": str}, kw_only=True),
            "a new field that is required; give it a default",
        ),
        (
            made(fields={"to": str, "subject": str}, kw_only=True),
            "cannot tell, but it looks different: had a default, so jobs may lack it, and is "
            "required; keep the default",
        ),
        (
            made(fields={"to": str}, forbid_unknown_fields=True),
            "the field is gone, and unknown fields are forbidden; "
            "keep it with a default, or allow them",
        ),
        (made(fields=SAME | {"to": int}), f"was string, is integer; {BOTH}"),
        (made(fields=SAME | {"to": list[str]}), f"was string, is array; {BOTH}"),
        (made(fields=SAME | {"to": Colour}), f'was string, is "blue" or "red"; {BOTH}'),
        (made(fields=SAME | {"to": dt.datetime}), f"was string, is any-date-time; {BOTH}"),
        (
            made(fields=SAME | {"to": Annotated[str, Meta(max_length=9)]}),
            "maxLength was not limited, is 9; keep what was allowed",
        ),
        (made(fields={"To": str}), "a new field that is required; give it a default"),
        (made(fields=SAME, rename="upper"), "a new field that is required; give it a default"),
        (made(fields=SAME, array_like=True), f"was SendEmail, is SendEmail; {BOTH}"),
    ],
    ids=str,
)
def test_what_breaks_is_said_with_what_to_do(new: Any, says: str) -> None:
    (found,) = change(new)

    assert says == found.partition(": ")[2]


def test_a_change_deep_inside_is_named_by_its_path() -> None:
    class Before(msgspec.Struct):
        price: float

    class After(msgspec.Struct):
        price: int

    old = made("Order", {"lines": dict[str, list[Before]]})
    new = made("Order", {"lines": dict[str, list[After]]})

    assert [f"order.lines[...][].price: was number, is integer; {BOTH}"] == change(new, old)


def test_each_kind_of_a_union_is_looked_at() -> None:
    old = made("A", {"x": int}) | made("B", {"x": int}) | made("C", {"x": int})
    new = made("A", {"x": float}) | made("B", {"x": str})

    assert ["b.x", "c"] == [found.partition(": ")[0] for found in change(new, old)]


def test_two_classes_of_one_name_are_told_apart() -> None:
    def one() -> Any:
        class Line(msgspec.Struct):
            x: int

        return Line

    def other() -> Any:
        class Line(msgspec.Struct):
            x: str

        return Line

    schema = schema_of(made("Order", {"a": one(), "b": other()}))

    assert {"Line", "Line.2", "Order"} == schema["$defs"].keys()


def test_the_words_of_people_are_in_the_schema_and_do_not_count() -> None:
    class Plain(bee.Job, tag="x"):
        size: int = 3

    class Told(bee.Job, tag="x"):
        """Told in full."""

        size: Annotated[int, Meta(title="Size", description="In metres.", examples=[4])] = 4

    schema = schema_of(Told)["$defs"]["Told"]

    assert "Told in full." == schema["description"]
    told = {"title": "Size", "description": "In metres.", "examples": [4]}
    assert told | {"type": "integer", "default": 4} == schema["properties"]["size"]
    assert [] == change(Told, Plain) == change(Plain, Told)


def test_what_has_no_schema_is_refused() -> None:
    with pytest.raises(bee.InvalidOption, match="is not a job type"):
        schema_of(3)
