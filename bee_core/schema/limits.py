"""The part of comparing schemas that needs no look inside: numbers, texts and single values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bee_core.schema.shape import Schema

ANNOTATIONS = frozenset({"title", "description", "examples", "deprecated", "default", "$defs"})
"""What is for people, and checked by nobody."""
_STRUCTURE = {"type", "anyOf", "enum", "const", "format", "contentEncoding"}
_STRUCTURE |= {"properties", "required", "additionalProperties", "propertyNames", "keys"}
_STRUCTURE |= {"prefixItems", "items", "minItems", "maxItems"}
_OTHERWISE = {"pattern", "flags", "keys", "propertyNames", "properties"}
_FLOORS = {"minLength", "minProperties", "minBytes"}
_CEILINGS = {"maxLength", "maxProperties", "maxBytes"}
_BOUNDS = {"minimum": 1, "exclusiveMinimum": 1, "maximum": -1, "exclusiveMaximum": -1}
"""With the sign that makes each of them a lower bound."""
_WIDER = {
    "any-date-time": {"date-time", "local-date-time"},
    "any-time": {"time", "local-time"},
}
"""Forms of text, and those that they comprise."""


class Change(msgspec.Struct, frozen=True):
    """Something that jobs which wait would not survive, and what to do instead."""

    where: str
    """The kind of job, and the path of the field in it: `send_email.to[].name`."""
    what: str
    advice: str = ""
    certain: bool = True
    """Whether it breaks for sure; otherwise it looks different, and cannot be told."""

    def __str__(self) -> str:
        doubt = "" if self.certain else "cannot tell, but it looks different: "
        return f"{self.where}: {doubt}{self.what}" + (f"; {self.advice}" if self.advice else "")


def rules(schema: Schema) -> set[str]:
    """What a schema demands; nothing if it takes anything."""
    return set(schema.keys() - ANNOTATIONS)


def describe(schema: Schema) -> str:
    """In a few words."""
    if "enum" in schema:
        return " or ".join(msgspec.json.encode(value).decode() for value in schema["enum"])
    kind = schema.get("title") or _form(schema) or schema.get("type") or schema.get("python")
    return str(kind) if kind else "anything"


def holds_text(old: Schema, new: Schema) -> bool:
    """Whether text of the old form is text of the new one."""
    before, now = _form(old), _form(new)
    return now in (None, before) or before in _WIDER.get(str(now), ())


def fit_limits(old: Schema, new: Schema, where: str) -> Iterator[Change]:
    """What the numbers of the new schema forbid that the old one allowed."""
    # What is limited otherwise may keep within the new limits all the same.
    certain = _form(old) is None and not _OTHERWISE & old.keys()
    for name in sorted(rules(new) - _STRUCTURE):
        limit, before = new[name], old.get(name)
        if limit == before:
            continue
        if name in _FLOORS:
            refused = (before or 0) < limit
        elif name in _CEILINGS:
            refused = before is None or before > limit
        elif name in _BOUNDS:
            refused = not _is_within(old, name, limit)
        elif name == "multipleOf":
            refused = before is None or before % limit != 0
        else:
            refused, certain = True, name == "pattern" and rules(old) == {"type"}
        if refused:
            what = f"{name} was {_shown(before)}, is {_shown(limit)}"
            yield Change(where, what, "keep what was allowed", certain)


def receivers(is_whole: bool, targets: Sequence[Schema]) -> list[Schema]:
    """Which members of a union a number goes to: a whole one never to a float if there is an int.

    So it is with msgspec, also if the int is one of a few.
    """
    ints = [t for t in targets if t.get("type") == "integer" or _has_ints(t)]
    if is_whole and ints:
        plain = [target for target in ints if "enum" not in target]
        return plain or ints
    floats = [target for target in targets if target.get("type") == "number"]
    return floats or [target for target in targets if target.get("format") == "decimal"]


def takes(targets: Sequence[Schema], value: Any) -> bool:
    """Whether one of the members of a union takes one value, for sure."""
    if any(not rules(target) for target in targets):
        return True
    match value:
        case None:
            return any(t.get("type") == "null" or _lists(t, None) for t in targets)
        case bool():
            return any(t.get("type") == "boolean" for t in targets)
        case int() | float():
            found = receivers(isinstance(value, int), targets)
            return any(_lists(t, value) or _takes_number(t, value) for t in found)
        case str():
            return any(_lists(t, value) or _takes_text(t, value) for t in targets)
        case _:
            return False


def _takes_number(schema: Schema, value: float) -> bool:
    if "enum" in schema:
        return False
    exact = {"minimum": value, "maximum": value, "multipleOf": value or 1}
    kind = "integer" if isinstance(value, int) else "number"
    return not list(fit_limits({"type": kind} | exact, schema, ""))


def _takes_text(schema: Schema, value: str) -> bool:
    if schema.get("type") != "string" or _form(schema) is not None:
        return False
    long_enough = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    return long_enough and re.search(schema.get("pattern", ""), value) is not None


def _lists(schema: Schema, value: object) -> bool:
    return any(type(one) is type(value) and one == value for one in schema.get("enum", ()))


def _has_ints(schema: Schema) -> bool:
    return any(type(value) is int for value in schema.get("enum", ()))


def _is_within(old: Schema, name: str, limit: float) -> bool:
    """Whether all that the old bounds allow is on the right side of a new one."""
    sign = _BOUNDS[name]
    whole = old.get("type") == "integer"
    for other, its in _BOUNDS.items():
        if its != sign or other not in old:
            continue
        exclusive = other.startswith("exclusive")
        lowest = sign * old[other] + (1 if exclusive and whole else 0)
        same_is_fine = not name.startswith("exclusive") or (exclusive and not whole)
        if lowest > sign * limit or (lowest == sign * limit and same_is_fine):
            return True
    return False


def _form(schema: Schema) -> str | None:
    """What kind of text it is; None for any."""
    return schema.get("format") or schema.get("contentEncoding")


def _shown(limit: object) -> str:
    return "not limited" if limit is None else msgspec.json.encode(limit).decode()
