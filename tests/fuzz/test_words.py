"""What people type and programs pass on: URLs, names, ids, durations, settings, environment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import bee_core as bee
from bee_core.checks import check_id, check_queue
from bee_core.config import known_variables, read_settings
from bee_core.duration import LONGEST, seconds
from bee_memory import MemoryBroker

T = TypeVar("T")

MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.decimals(),
    st.timedeltas(),
    st.lists(st.integers(), max_size=2),
    st.sampled_from([float("nan"), float("inf"), 10**400, -0.0, "5", object(), timedelta.max]),
)


def damaged(good: list[str]) -> st.SearchStrategy[str]:
    """One of these with something put in, left out, or written twice."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> str:
        text = draw(st.sampled_from(good))
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(text)))
            end = draw(st.integers(at, min(len(text), at + 5)))
            new = draw(
                st.text(max_size=3) | st.sampled_from([text[at:end] * 2, *":/?#[]@!$&'()*+,;=%"])
            )
            text = text[:at] + new + text[end:]
        return text

    return draw_one()


URLS = [
    "memory://",
    "memory://name",
    "redis://user:hunter2@localhost:6379/3?prefix=a&pool_size=5&deadline=2.5",
    "rediss://localhost?ssl_cert_reqs=none",
    "unix:///tmp/redis.sock?db=1",
    "redis+cluster://a:1,b:2,c:3?protocol=3",
    "redis+sentinel://a:1,b:2/mymaster/0",
    "redis://[::1]:6379?shards=4",
    "postgresql://user:hunter2@localhost:5432/db?schema=bee&migrate=1&notify=0",
    "postgresql:///db?host=/tmp&sslmode=require",
]


@MANY
@given(st.text() | damaged(URLS))
@example("redis://[")
@example("postgresql://%zz")
@example("redis://h:99999")
def test_a_url_is_a_broker_or_bees_own_error(url: str) -> None:
    async def connect() -> None:
        broker = bee.connect(url)
        assert "hunter2" not in repr(broker) or "hunter2@" not in url
        await broker.aclose()

    allowed(lambda: asyncio.run(connect()), bee.BeeError)


@MANY
@given(anything)
def test_a_duration_is_seconds_in_range_or_an_invalid_option(value: object) -> None:
    found = allowed(lambda: seconds(value, "delay"), bee.InvalidOption)  # type: ignore[arg-type]

    assert found is None or 0 <= found <= LONGEST


@MANY
@given(anything | damaged(["mail", "a" * 47, "a-b_c"]))
def test_a_queue_name_is_one_or_an_invalid_name(name: object) -> None:
    found = allowed(lambda: check_queue(name), bee.InvalidName)  # type: ignore[arg-type]

    assert found is None or found == name


@MANY
@given(anything | damaged(["order-4711", "x" * 200]))
def test_an_id_is_one_or_an_invalid_name(id: object) -> None:
    found = allowed(lambda: check_id(id), bee.InvalidName)  # type: ignore[arg-type]

    assert found is None or found.encode().decode() == id


@MANY
@given(anything, anything, anything, anything, anything, anything)
def test_whatever_a_draft_is_made_of_it_is_sent_or_refused_as_a_whole(
    id: object, body: object, delay: object, priority: object, headers: object, key: object
) -> None:
    async def send() -> int:
        async with MemoryBroker() as broker:
            draft = bee.Draft(id, body, delay, priority, headers, key=key)  # type: ignore[arg-type]
            try:
                await broker.send("q", [bee.Draft("first", b""), draft])
            finally:
                live = (await broker.stats("q")).live
                assert live in (0, 2) or (live, id) == (1, "first")
            return live

    allowed(lambda: asyncio.run(send()), bee.InvalidInput)


SETTINGS = [
    'url = "redis://localhost"\n[worker]\nqueues = ["mail"]\nconcurrency = 5\ngrace = "30s"\n',
    'url = "memory://"\n[worker]\nmax_rss = "1G"\nlog_level = "debug"\nreload = true\n',
    '[worker]\nprocesses = 2\nmetrics = "0.0.0.0:9000"\nuntil_empty = false\nloop = "uvloop"\n',
]


@MANY
@given(st.binary() | damaged(SETTINGS).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"[worker]\nconcurrency = 99999999999999999999\n")
@example(b"url = 1979-05-27\n")
@example(b"x = " + b"[" * 5000)
def test_a_file_of_settings_is_read_or_an_invalid_option(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "bee.toml").write_bytes(text)

    allowed(lambda: read_settings(directory=tmp_path), bee.InvalidOption)


@MANY
@given(
    st.sampled_from(known_variables()),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
def test_a_variable_is_read_or_an_invalid_option(tmp_path: Path, name: str, value: str) -> None:
    with patch.dict(os.environ, {name: value}):
        allowed(lambda: read_settings(directory=tmp_path), bee.InvalidOption)


def allowed(call: Callable[[], T], error: type[Exception]) -> T | None:
    """What it returns; None if it raises the one error that it may."""
    try:
        return call()
    except error:
        return None
