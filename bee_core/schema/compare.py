"""Whether jobs that were written by one schema can be read by another.

Pure: two schemas of `shape.py` in, what is wrong with the change out. Every value that the old one
allows must be taken by the new one, by the rules of msgspec's decoder. Widening is fine. Where it
cannot be told, that is a finding too: nothing that is called fine here fails in a worker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bee_core.schema.limits import (
    Change,
    describe,
    fit_limits,
    holds_text,
    receivers,
    rules,
    takes,
)
from bee_core.schema.shape import Schema

_ANYTHING: Schema = {}
_TEXT: Schema = {"type": "string"}
_DEFAULT = "give it a default"
_WIDEN = "allow both for a while: a union of the old type and the new one"
_SECOND = 'keep the class until no such job is left, and add another one with tag="{tag}.v2"'


def compare(old: Schema, new: Schema) -> list[Change]:
    """What jobs of the schema `old` would not survive in a program whose schema is `new`."""
    comparison = _Comparison(old, new)
    found: list[Change] = []
    kinds = comparison.new.kinds()
    for option in comparison.old.options(old):
        tag = tag_of(option)
        if tag is None:
            found += comparison.fit(option, new, option.get("title", "job"))
        elif tag in kinds:
            found += comparison.fit(option, kinds[tag], str(tag))
        else:
            found.append(_removed(option, tag, kinds))
    return [_with_second_class(change) for change in found]


def tag_of(schema: Schema) -> object:
    """By what it is told apart from others of its union; None if it has no tag."""
    fields = [*schema.get("properties", {}).values(), *schema.get("prefixItems", [])[:1]]
    return next((field["const"] for field in fields if "const" in field), None)


def _removed(option: Schema, tag: object, kinds: Mapping[object, Schema]) -> Change:
    title = option.get("title")
    for now, its in kinds.items():
        if title and its.get("title") == title:
            what = f'the tag of {title} was "{tag}" and is "{now}"'
            return Change(str(tag), what, f'say tag="{tag}", or keep the old class beside it')
    known = ", ".join(sorted(str(kind) for kind in kinds if kind is not None)) or "none"
    what = f"this kind is gone (there are: {known})"
    return Change(str(tag), what, "keep its class until no such job is left")


def _with_second_class(change: Change) -> Change:
    if change.advice:
        return change
    tag = re.split(r"[.\[ ]", change.where)[0]
    return msgspec.structs.replace(change, advice=_SECOND.format(tag=tag))


class _Document:
    """A schema, with what it refers to."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._defs: Mapping[str, Schema] = root.get("$defs", {})

    def resolve(self, schema: Schema) -> Schema:
        """What a reference stands for."""
        while "$ref" in schema:
            schema = self._defs[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def options(self, schema: Schema) -> Iterator[Schema]:
        """What a schema leaves the choice of, one by one."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            for option in schema["anyOf"]:
                yield from self.options(option)
        else:
            yield schema

    def kinds(self) -> dict[object, Schema]:
        """By tag."""
        return {tag_of(option): option for option in self.options(self._root)}


class _Comparison:
    """Two schemas, and the pairs of their parts that are being compared."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self.old, self.new = _Document(old), _Document(new)
        self._under_way: set[tuple[int, int]] = set()

    def fit(self, old: Schema, new: Schema, where: str) -> Iterator[Change]:
        """What of the old schema the new one does not take."""
        old, new = self.old.resolve(old), self.new.resolve(new)
        pair = id(old), id(new)
        if pair in self._under_way:  # types that contain themselves
            return
        self._under_way.add(pair)
        targets = list(self.new.options(new))
        if all(rules(target) for target in targets):
            for option in self.old.options(old):
                if option.get("type") == "null":
                    yield from _fit_values([None], targets, where)
                elif "enum" in option:
                    yield from _fit_values(option["enum"], targets, where)
                else:
                    yield from self._fit_one(option, targets, where)
        self._under_way.discard(pair)

    def _fit_one(self, old: Schema, targets: list[Schema], where: str) -> Iterator[Change]:
        matching = [target for target in targets if _is_alike(old, target)]
        if old.get("type") in ("integer", "number"):
            matching = receivers(old["type"] == "integer", targets)
            matching = [target for target in matching if "enum" not in target]
        if not matching:
            now = " or ".join(describe(target) for target in targets)
            yield Change(where, f"was {describe(old)}, is {now}", _WIDEN)
            return
        new = matching[0]
        match old.get("type"), new.get("type"):
            case "object", "object":
                alone = 1 == sum(target.get("type") == "object" for target in targets)
                yield from self._fit_object(old, new, where, alone)
            case "array", "array":
                yield from self._fit_array(old, new, where)
            case (("integer" | "number"), "string"):
                return  # a decimal takes any number
            case "string", "string" if not holds_text(old, new):
                yield Change(where, f"was {describe(old)}, is {describe(new)}", _WIDEN)
            case _:
                pass
        yield from fit_limits(old, new, where)

    def _fit_object(self, old: Schema, new: Schema, where: str, alone: bool) -> Iterator[Change]:
        if "properties" not in new:
            yield from self._fit_dict(old, new, where)
            return
        if "properties" not in old:
            yield Change(where, "was any keys, is a fixed set of fields", certain=False)
            return
        fields, before = new["properties"], old["properties"]
        for name in new.get("required", ()):
            is_tag = "const" in fields[name]
            if name not in before and not (is_tag and alone):  # one class alone needs no tag
                yield Change(f"{where}.{name}", "a new field that is required", _DEFAULT)
            elif name in before and name not in old.get("required", ()):
                what = "had a default, so jobs may lack it, and is required"
                yield Change(f"{where}.{name}", what, "keep the default", certain=False)
        for name, field in before.items():
            if name in fields:
                yield from self._fit_place(field, fields[name], f"{where}.{name}")
            elif new.get("additionalProperties") is False:
                what = "the field is gone, and unknown fields are forbidden"
                yield Change(f"{where}.{name}", what, "keep it with a default, or allow them")

    def _fit_place(self, old: Schema, new: Schema, where: str) -> Iterator[Change]:
        """A field, or a place in an array, of which either may be the tag."""
        match old, new:
            case {"const": before}, {"const": now}:
                if before != now:
                    yield Change(where, f"the tag was {before!r} and is {now!r}", "keep the tag")
            case {"const": before}, _:
                yield from _fit_values([before], list(self.new.options(new)), where)
            case _, {"const": now}:
                yield Change(where, f"was a field, is the tag {now!r}", "choose another name")
            case _:
                yield from self.fit(old, new, where)

    def _fit_dict(self, old: Schema, new: Schema, where: str) -> Iterator[Change]:
        value = new.get("additionalProperties", _ANYTHING)
        names = _keys(new)
        if "properties" in old:
            bounds = {"minProperties", "maxProperties"} & new.keys()
            if bounds or names is not _TEXT:
                yield Change(where, "was a fixed set of fields, is any keys", certain=False)
            for name, field in old["properties"].items():
                yield from self._fit_place(field, value, f"{where}.{name}")
            return
        yield from self.fit(old.get("additionalProperties", _ANYTHING), value, f"{where}[...]")
        if names is _TEXT:  # as which all keys are written
            return
        if "propertyNames" in new and "keys" in old:
            yield Change(f"{where} key", "the type of keys has changed", certain=False)
        else:
            yield from self.fit(_keys(old), names, f"{where} key")

    def _fit_array(self, old: Schema, new: Schema, where: str) -> Iterator[Change]:
        before, now = old.get("prefixItems", []), new.get("prefixItems", [])
        room = new.get("items", _ANYTHING)
        # Who writes fields at fixed places writes nothing behind them.
        longest = len(before) or (0 if old.get("items") is False else old.get("maxItems", math.inf))
        shortest = old.get("minItems", 0)
        least = new.get("minItems", 0)
        most = new.get("maxItems", len(now) if room is False else math.inf)
        if shortest < least:
            what = f"had at least {shortest} items, needs {least}"
            yield Change(where, what, _DEFAULT, certain=len(before) < least)
        if longest > most:
            had = "any number of" if longest == math.inf else f"up to {longest}"
            yield Change(where, f"had {had} items, at most {most} are allowed", "allow as many")
        last = int(min(longest, max(len(before), len(now)), most))
        for place in range(last):
            item = before[place] if place < len(before) else old.get("items", _ANYTHING)
            target = now[place] if place < len(now) else room
            yield from self._fit_place(item, target, f"{where}[{place}]")
        if not before and min(longest, most) > len(now):
            yield from self.fit(old.get("items", _ANYTHING), room, f"{where}[]")


def _is_alike(old: Schema, new: Schema) -> bool:
    """Whether it is this member of a union that would have to take it."""
    kind = old.get("type")
    if kind in ("object", "array") and kind == new.get("type"):
        tags = tag_of(old), tag_of(new)
        return None in tags or tags[0] == tags[1]
    if kind is None:
        return bool(rules(old)) and {name: old[name] for name in rules(old)} == {
            name: new[name] for name in rules(new)
        }
    return bool(kind == new.get("type"))


def _fit_values(values: Sequence[Any], targets: list[Schema], where: str) -> Iterator[Change]:
    refused = [value for value in values if not takes(targets, value)]
    if refused:
        shown = ", ".join(msgspec.json.encode(value).decode() for value in refused)
        doubt = any(rules(target) - {"type", "enum"} for target in targets)
        yield Change(where, f"{shown} is no longer allowed", "keep it", not doubt)


def _keys(schema: Schema) -> Schema:
    found: Schema = schema.get("propertyNames") or schema.get("keys") or _TEXT
    return found
