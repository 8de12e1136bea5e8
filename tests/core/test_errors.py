"""The errors: one tree, drawn in the docstring as it is."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

import bee_core as bee
from bee_core import errors, outcome

LINE = re.compile(r"^(?P<depth>[ │├└─]*)(?P<names>[A-Z]\w+(?:, [A-Z]\w+)*)(?:\s+\S|$)")


def drawn() -> dict[str, str | None]:
    """Each name of the tree in the docstring with the name it hangs from."""
    parents: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        found = LINE.match(line)
        if found is None or not line.startswith("    "):
            continue
        depth = len(found["depth"])
        path = [(at, name) for at, name in path if at < depth]
        for name in found["names"].split(", "):
            parents[name] = path[-1][1] if path else None
        path.append((depth, found["names"]))
    return parents


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    real: dict[str, str | None] = {
        cls.__name__: parent if (parent := cls.__bases__[0].__name__) != "Exception" else None
        for cls in classes
    }

    assert {**real, "Retry": None, "Snooze": None} == drawn()
    assert len(drawn()) > 20


def test_every_error_is_part_of_the_public_api() -> None:
    assert [] == [name for name in drawn() if not hasattr(bee, name)]


def test_invalid_input_is_a_value_error_too() -> None:
    assert issubclass(bee.InvalidInput, ValueError)


def test_what_handlers_raise_is_not_an_error_of_bee() -> None:
    for signal in (bee.PermanentError, outcome.Retry, outcome.Snooze):
        assert not issubclass(signal, bee.BeeError)


@pytest.mark.parametrize("name", sorted(set(drawn()) - {"Retry", "Snooze"}))
def test_every_error_says_what_it_means(name: str) -> None:
    assert getattr(errors, name).__doc__


def test_a_decode_error_keeps_its_kind_when_it_learns_which_message_it_is_about() -> None:
    error = bee.UnknownJob("unknown", known=["b", "a"]).at("mail", "id-1")

    assert bee.UnknownJob is type(error)
    assert ("mail", "id-1", ("b", "a")) == (error.queue, error.id, error.known)
    assert "message 'id-1' of queue 'mail': unknown (known tags: b, a)" == str(error)


def test_id_taken_names_the_queue_and_the_ids() -> None:
    error = bee.IdTaken("mail", ["b", "a"])

    assert ("mail", frozenset({"a", "b"})) == (error.queue, error.ids)
    assert "queue 'mail' already holds a, b" == str(error)


@pytest.mark.parametrize(
    "error",
    [
        bee.BrokerUnavailable("down"),
        bee.InvalidOption("no"),
        bee.DecodeError("bad", known=["a"], queue="mail", id="id-1"),
        bee.UnknownJob("new", known=["a"]),
        bee.PermanentError("never"),
        bee.Retry("later", after=5),
        bee.Retry(),
        bee.IdTaken("mail", ["a"]),
        bee.JobFailed("id-1", bee.Note("failed", "ValueError: no")),
        bee.NoResult("nothing"),
        bee.ResultTimeout("not yet"),
        bee.Snooze(5, "later"),
        bee.Snooze(5),
    ],
    ids=repr,
)
def test_an_error_travels_between_processes(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))

    assert (type(error), str(error), vars(error)) == (type(back), str(back), vars(back))
