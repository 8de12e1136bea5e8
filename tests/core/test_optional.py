"""What a broker has besides its verbs is used in their place only if it does the same."""

from __future__ import annotations

from typing import Any

from bee_core.optional import belongs_to


class Plain:
    def send(self) -> None: ...


class Packing(Plain):
    def send(self) -> None: ...
    def pack(self) -> None: ...


class Inheriting(Packing): ...


class Changed(Packing):
    def send(self) -> None: ...


class ChangedBoth(Changed):
    def pack(self) -> None: ...


class Proxy:
    def __getattr__(self, name: str) -> Any:
        return getattr(Packing(), name)


def test_it_is_used_where_the_verb_is_as_it_was_when_it_was_written() -> None:
    assert belongs_to(Packing(), "pack", "send")
    assert belongs_to(Inheriting(), "pack", "send")
    assert belongs_to(ChangedBoth(), "pack", "send")


def test_it_is_not_used_where_only_the_verb_was_changed() -> None:
    assert not belongs_to(Changed(), "pack", "send")


def test_it_is_not_used_through_somebody_who_only_passes_it_on() -> None:
    assert not belongs_to(Proxy(), "pack", "send")


def test_it_is_not_used_where_there_is_none() -> None:
    assert not belongs_to(Plain(), "pack", "send")
