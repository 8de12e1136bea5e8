"""Job classes with fields of every shape, and what hypothesis makes of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

from hypothesis import strategies as st
from msgspec import field

import bee_core as bee
from tests.core.support import Resize, SendEmail


class Anything(bee.Job):
    value: Any = None
    extras: dict[str, Any] = field(default_factory=dict)


class Tree(bee.Job):
    label: str
    children: list[Tree] = field(default_factory=list)


class Measure(bee.Job):
    value: float = 0.0
    maybe: float | None = None
    series: list[float] = field(default_factory=list)
    named: dict[str, float] = field(default_factory=dict)
    weights: dict[float, str] = field(default_factory=dict)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Rich(bee.Job):
    when: datetime
    day: date
    span: timedelta
    id: UUID
    price: Decimal
    raw: bytes
    colour: Colour
    pair: tuple[int, str]
    tags: frozenset[str]


Everything: TypeAlias = SendEmail | Resize | Anything | Tree | Measure | Rich
TAGS = ("anything", "measure", "resize.v2", "rich", "send_email", "tree")

finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)
trees: st.SearchStrategy[Tree] = st.recursive(
    st.builds(Tree, st.text()),
    lambda inner: st.builds(Tree, st.text(), st.lists(inner, max_size=3)),
    max_leaves=10,
)
any_job: st.SearchStrategy[Everything] = st.one_of(
    st.builds(SendEmail, to=st.text(), subject=st.text()),
    st.builds(Resize, path=st.text(), width=st.integers(), scale=st.none() | finite),
    st.builds(Anything, json_values, st.dictionaries(st.text(), json_values, max_size=3)),
    trees,
    st.builds(
        Measure,
        value=finite,
        maybe=st.none() | finite,
        series=st.lists(finite, max_size=3),
        named=st.dictionaries(st.text(), finite, max_size=3),
        weights=st.dictionaries(finite, st.text(), max_size=3),
    ),
    st.builds(
        Rich,
        when=st.datetimes(timezones=st.just(UTC)),
        day=st.dates(),
        span=st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
        id=st.uuids(),
        price=st.decimals(allow_nan=False, allow_infinity=False),
        raw=st.binary(),
        colour=st.sampled_from(Colour),
        pair=st.tuples(st.integers(), st.text()),
        tags=st.frozensets(st.text(), max_size=3),
    ),
)
