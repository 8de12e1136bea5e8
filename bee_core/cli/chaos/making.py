"""Jobs out of thin air: values that a schema allows, for who has none to test with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from bee_core.schema import Schema

_TEXTS = {
    "date-time": "2026-01-02T03:04:05Z",
    "any-date-time": "2026-01-02T03:04:05Z",
    "local-date-time": "2026-01-02T03:04:05",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "any-time": "03:04:05",
    "local-time": "03:04:05",
    "duration": "PT90S",
    "uuid": "01a1e57c-ec1a-7969-9c66-41eb4765d97a",
    "decimal": "12.50",
    "base64": "YmVl",
}
_DEEPEST = 8


class CannotMake(Exception):
    """A schema that no value can be made up for."""


def make(schema: Schema, chance: random.Random) -> Iterator[bytes]:
    """Jobs of the schema of a queue, without end, each of one of the kinds that can be made.

    What has a default is left out. CannotMake if there is no such kind.
    """
    maker = _Maker(schema, chance)
    kinds = [maker.resolve(kind) for kind in schema.get("anyOf", [schema])]
    possible, problems = [], []
    for kind in kinds:
        try:
            maker.value(kind, "", 0)
            possible.append(kind)
        except CannotMake as error:
            problems.append(f"{kind.get('title', 'job')}{error}")
    if not possible:
        raise CannotMake("; ".join(problems))
    while True:
        yield msgspec.json.encode(maker.value(chance.choice(possible), "", 0))


class _Maker:
    def __init__(self, root: Schema, chance: random.Random) -> None:
        self._defs = root.get("$defs", {})
        self._chance = chance

    def resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._defs[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def value(self, schema: Schema, where: str, depth: int) -> Any:
        schema = self.resolve(schema)
        if depth > _DEEPEST:
            raise CannotMake(f"{where} contains itself")
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        if "anyOf" in schema:
            return self._one_of(schema["anyOf"], where, depth)
        match schema.get("type"):
            case "object" if "properties" in schema:
                return {
                    name: self.value(schema["properties"][name], f"{where}.{name}", depth + 1)
                    for name in schema["required"]
                }
            case "object" if not schema.get("minProperties"):
                return {}
            case "array":
                return self._array(schema, where, depth)
            case "integer" | "number" if "multipleOf" not in schema:
                return self._number(schema)
            case "string" if "pattern" not in schema:
                return self._text(schema)
            case "boolean":
                return self._chance.choice([True, False])
            case "null" | None if "python" not in schema:
                return None
            case _:
                raise CannotMake(f"{where} has rules that no value can be made up for")

    def _one_of(self, options: list[Schema], where: str, depth: int) -> Any:
        """The plainest that can be made: so types that contain themselves come to an end."""
        for option in reversed(options):
            try:
                return self.value(option, where, depth)
            except CannotMake as error:
                problem = error
        raise problem

    def _array(self, schema: Schema, where: str, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        places = schema.get("prefixItems", [])[:least]
        found = [self.value(item, f"{where}[{n}]", depth + 1) for n, item in enumerate(places)]
        rest = schema.get("items", {})
        while len(found) < least:
            found.append(self.value(rest, f"{where}[]", depth + 1))
        return found

    def _number(self, schema: Schema) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        if low is None:
            low = 0 if high is None else high - 100
        if high is None:
            high = low + 100
        if schema["type"] == "integer":
            low += 1 if "exclusiveMinimum" in schema else 0
            high -= 1 if "exclusiveMaximum" in schema else 0
            return self._chance.randint(int(low), max(int(low), int(high)))
        return low + (high - low) * self._chance.uniform(0.25, 0.75)

    def _text(self, schema: Schema) -> str:
        form = schema.get("format") or schema.get("contentEncoding")
        if form is not None:
            return _TEXTS[form]
        text = f"bee-{self._chance.randint(0, 9999):04}"
        least, most = schema.get("minLength", 0), schema.get("maxLength", 8)
        return text.ljust(least, "x")[: max(most, least)]
