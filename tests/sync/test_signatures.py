"""What is awaited and what blocks have the same names and signatures, so that neither drifts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import bee_core as bee
from bee_core import sync

ASYNC_ONLY = {"aclose": "close"}
HERE_ONLY = {"close", "inner", "of"}


def names(kind: type, *, without: set[str] = frozenset()) -> set[str]:  # type: ignore[assignment]
    return {name for name in dir(kind) if not name.startswith("_")} - without


def shape(function: Any) -> tuple[list[tuple[str, Any, Any, Any]], Any]:
    """The parameters of a function, one by one, and what it returns in the end."""
    signature = inspect.signature(function)
    parameters = [(p.name, p.kind, p.default, p.annotation) for p in signature.parameters.values()]
    return parameters, signature.return_annotation


@pytest.mark.parametrize("protocol", [bee.Broker, bee.Inspector])
def test_a_store_has_every_verb(protocol: type) -> None:
    verbs = {ASYNC_ONLY.get(name, name) for name in names(protocol)}

    assert set() == verbs - names(sync.Store)


def test_a_store_has_no_other_verb() -> None:
    both = names(bee.Broker) | names(bee.Inspector)

    assert HERE_ONLY - {"of"} == names(sync.Store) - both


@pytest.mark.parametrize(
    "name", sorted(names(bee.Store, without={"aclose", "clone"})), ids=lambda name: str(name)
)
def test_a_verb_of_a_store_takes_and_returns_the_same(name: str) -> None:
    assert shape(getattr(bee.Store, name)) == shape(getattr(sync.Store, name))


def methods(kind: type) -> list[str]:
    return sorted(name for name in names(kind) if inspect.isfunction(getattr(kind, name)))


@pytest.mark.parametrize("name", methods(bee.HiveQueue))
def test_a_method_of_a_queue_takes_and_returns_the_same(name: str) -> None:
    assert shape(getattr(bee.HiveQueue, name)) == shape(getattr(sync.HiveQueue, name))


NOT_OF_A_HIVE = {
    "aclose",  # is close
    "start",  # returns a task; `working` is for those who have none
    "adjust",  # for the command line
    "patience",
    "substitute",  # for tests
}


def test_a_hive_has_the_same_names() -> None:
    awaited = names(bee.Hive, without=NOT_OF_A_HIVE) | {"queues"}

    assert awaited == names(sync.Hive, without=HERE_ONLY)


@pytest.mark.parametrize("name", ["queue", "stop", "kill", "health"])
def test_a_method_of_a_hive_takes_and_returns_the_same(name: str) -> None:
    assert shape(getattr(bee.Hive, name)) == shape(getattr(sync.Hive, name))


@pytest.mark.parametrize("name", ["run", "working"])
def test_a_method_of_a_hive_that_waits_takes_the_same(name: str) -> None:
    assert shape(getattr(bee.Hive, name))[0] == shape(getattr(sync.Hive, name))[0]


def plain(function: Any) -> list[tuple[str, Any, Any]]:
    return [parameter[:3] for parameter in shape(function)[0]]


@pytest.mark.parametrize("name", ["Hive", "Queue", "connect", "explain"])
def test_what_makes_one_takes_the_same(name: str) -> None:
    assert plain(getattr(bee, name)) == plain(getattr(sync, name))


def test_every_name_but_one_is_a_name_of_bee() -> None:
    assert ["of"] == [name for name in sync.__all__ if name not in bee.__all__]
