"""The short form of the fuzz and group runs, and that the fuzz notices each broken promise."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import bee_core as bee
from tests.chaos import groups, stores
from tests.chaos.alike import compare
from tests.chaos.fuzz import Run, Work, run


def start(id: str, at: float, **facts: Any) -> dict[str, Any]:
    usual = {"what": "start", "who": "a", "token": 1, "sent_at": 0.0, "key": None, "due": None}
    return {**usual, "id": id, "at": at, "leased_at": at, **facts}


def end(at: float, **facts: Any) -> dict[str, Any]:
    return {"what": "end", "who": "a", "token": 1, "at": at, **facts}


def settled(id: str, at: float, **facts: Any) -> dict[str, Any]:
    return {"what": "settled", "who": "a", "id": id, "token": 1, "at": at, "done": True, **facts}


NEVER = Work("never", 0.0, 0.0, True, None)
DONE = Work("done", 0.0, 0.0, True, None)
BROKEN = {
    "1 exclusion: id": Run(1, entries=[start("x", 1), end(3), start("x", 2, who="b", token=2)]),
    "1 exclusion: key": Run(
        1, entries=[start("x", 1, key="k"), end(3), start("y", 2, key="k", who="b", token=2)]
    ),
    "1 exclusion": Run(
        1, killed={"a": 3.0}, entries=[start("x", 1), start("x", 2, who="b", token=2)]
    ),
    "2 once": Run(1, entries=[start("x", 1), settled("x", 2), end(1.5), start("x", 3, token=2)]),
    "3 time": Run(1, entries=[start("x", 1, due=2.0)]),
    "4 order": Run(1, entries=[start("x", 5, due=4.0), start("y", 9, due=1.0, token=2)]),
    "5 failures": Run(1, sent={"x": NEVER}, entries=[start("x", 1), end(2)]),
    "6 progress": Run(1, sent={"x": DONE}),
    "6 progress: 3": Run(1, left=3),
    "6 progress: something due": Run(1, longest_wait=1000.0),
    "6 progress: without a key": Run(1, entries=[start("x", 50, due=1.0)]),
}


@pytest.mark.parametrize("promise", BROKEN)
def test_the_fuzz_notices_a_broken_promise(promise: str) -> None:
    faults = BROKEN[promise].faults()

    assert any(fault.startswith(promise) for fault in faults), faults


def test_the_fuzz_is_content_with_what_is_right() -> None:
    entries = [
        start("x", 1, due=1.0),
        end(2),
        settled("x", 2.1),
        start("y", 3, due=2.5, token=2, key="k"),
        end(4, token=2),
        start("z", 5, token=3, key="k", due=2.0),
    ]
    jobs = {"x": DONE, "y": DONE, "z": DONE}

    assert [] == Run(1, sent=jobs, killed={"a": 6.0}, entries=entries).faults()


@pytest.mark.parametrize("store", ["memory", *stores.NAMES])
def test_six_promises_hold_while_workers_are_killed(store: str) -> None:
    outcome = run(store, seconds=10, processes=3)

    assert [] == outcome.faults()
    assert len(outcome.sent) > 100
    assert outcome.killed


@pytest.mark.parametrize("store", stores.NAMES)
def test_a_group_ends_once_with_every_result_while_workers_are_killed(store: str) -> None:
    server = stores.durable(store)
    try:
        report = groups.run(server.url, children=1_000, kills=5, processes=3)
    finally:
        server.stop()

    assert [] == report.faults


@pytest.mark.parametrize("store", stores.NAMES)
def test_whatever_is_done_to_it_a_store_answers_as_the_specification_does(store: str) -> None:
    async def compare_all(url: str) -> None:
        async with bee.connect(url) as broker:
            await compare(broker, runs=20)

    server = stores.durable(store)
    try:
        asyncio.run(compare_all(server.url))
    finally:
        server.stop()
