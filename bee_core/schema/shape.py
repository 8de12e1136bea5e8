"""The JSON Schema of a job type: what its jobs look like on the wire, and what is checked there.

Made from what msgspec knows of the type, but not by msgspec: its own schema calls a datetime a
string and forgets the keys of a dict, and its text changes with its version. This one says all that
the decoder checks, and the same type always gives the same text, so that it can be committed.
"""

from __future__ import annotations

import enum
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Union

import msgspec
from msgspec import inspect as types

from bee_core.errors import InvalidOption
from bee_core.job import parts

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PAGES = ("title", "description", "examples", "deprecated")
"""What of the user's own words about a field is kept; it is for people, and checked by nobody."""


def schema_of(form: object) -> Schema:
    """The JSON Schema of a class or a union of classes; InvalidOption if msgspec knows no way."""
    try:
        info = types.type_info(Union[parts(form)])  # noqa: UP007
        return _Describer().whole(info)
    except TypeError as error:
        raise InvalidOption(f"{form!r} has no JSON Schema: {error}") from error


class _Describer:
    """Describes one type. Classes with names are described once, and referred to."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._defs: dict[str, Schema] = {}

    def whole(self, info: types.Type) -> Schema:
        """The schema, and what it refers to."""
        schema = self._describe(info)
        return schema | {"$defs": {name: self._defs[name] for name in sorted(self._defs)}}

    def _describe(self, info: types.Type) -> Schema:
        match info:
            case types.Metadata(type=inner, extra_json_schema=said):
                return _words(said) | self._describe(inner)
            case types.UnionType(types=members):
                options = [self._describe(member) for member in members]
                return {"anyOf": sorted(options, key=_rank)}
            case types.LiteralType(values=values):
                return {"enum": sorted(values, key=_by_type)}
            case types.CollectionType(item_type=item, min_length=least, max_length=most):
                return _array([], self._describe(item), least or 0, most)
            case types.TupleType(item_types=items):
                return _array([self._describe(item) for item in items], None, len(items), None)
            case _ if hasattr(info, "key_type"):  # a dict, or one of the newer kinds of it
                return self._dict(info)
            case (
                types.StructType()
                | types.DataclassType()
                | types.TypedDictType()
                | types.NamedTupleType()
                | types.EnumType()
            ):
                return self._refer(info)
            case _:
                return _plain(info)

    def _refer(self, info: Any) -> Schema:
        if info.cls not in self._names:
            name = self._names[info.cls] = self._new_name(info.cls)
            self._defs[name] = {}  # taken, also if it refers to itself
            self._defs[name] = {"title": _name(info.cls)} | _doc(info) | self._named(info)
        return {"$ref": f"#/$defs/{self._names[info.cls]}"}

    def _new_name(self, cls: Any) -> str:
        plain = re.sub(r"[^\w.-]", "_", _name(cls))
        name, number = plain, 2
        while name in self._defs:  # another class of that name
            name, number = f"{plain}.{number}", number + 1
        return name

    def _named(self, info: Any) -> Schema:
        match info:
            case types.EnumType(cls=cls):
                return _enum(cls)
            case types.StructType(array_like=True):
                closed = info.forbid_unknown_fields
                return self._row(info.fields, closed=closed, tag=info.tag)
            case types.NamedTupleType():
                return self._row(info.fields, closed=True)
            case types.StructType(tag_field=None):
                return self._object(info.fields, closed=info.forbid_unknown_fields)
            case types.StructType():
                tag = {str(info.tag_field): {"const": info.tag}}
                return self._object(info.fields, closed=info.forbid_unknown_fields, tag=tag)
            case _:
                return self._object(info.fields, closed=False)

    def _object(
        self, fields: Sequence[types.Field], *, closed: bool, tag: Mapping[str, Schema] = {}
    ) -> Schema:
        properties = dict(tag)
        for field in fields:
            properties[field.encode_name] = self._describe(field.type) | _default(field)
        required = [*tag, *(field.encode_name for field in fields if field.required)]
        schema: Schema = {"type": "object", "properties": properties, "required": required}
        return schema | ({"additionalProperties": False} if closed else {})

    def _row(
        self, fields: Sequence[types.Field], *, closed: bool, tag: str | int | None = None
    ) -> Schema:
        items: list[Schema] = [] if tag is None else [{"const": tag}]
        needed = len(items) + sum(field.required for field in fields)
        items += [self._describe(field.type) | _default(field) for field in fields]
        return _array(items, None if closed else {}, needed, None)

    def _dict(self, info: Any) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self._describe(info.value_type)}
        names = self._describe(info.key_type)
        if names not in ({}, {"type": "string"}):
            # What is no text in Python is written as text: to a validator its schema would lie.
            schema["propertyNames" if names.get("type") == "string" else "keys"] = names
        return schema | _limits("Properties", info.min_length, info.max_length)


def _plain(info: types.Type) -> Schema:
    match info:
        case types.AnyType() | types.RawType():
            return {}
        case types.NoneType():
            return {"type": "null"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType() | types.FloatType():
            name = "integer" if isinstance(info, types.IntType) else "number"
            bounds = {
                "minimum": info.ge,
                "exclusiveMinimum": info.gt,
                "maximum": info.le,
                "exclusiveMaximum": info.lt,
                "multipleOf": info.multiple_of,
            }
            return {"type": name} | _given(bounds)
        case types.StrType(min_length=least, max_length=most, pattern=pattern):
            return {"type": "string"} | _limits("Length", least, most) | _given(pattern=pattern)
        case types.BytesType() | types.ByteArrayType() | types.MemoryViewType():
            # JSON Schema knows the length of the text only, which says less.
            own = _limits("Bytes", info.min_length, info.max_length)
            return {"type": "string", "contentEncoding": "base64"} | own
        case types.DateTimeType(tz=tz):
            return _text({True: "date-time", False: "local-date-time", None: "any-date-time"}[tz])
        case types.TimeType(tz=tz):
            return _text({True: "time", False: "local-time", None: "any-time"}[tz])
        case types.DateType():
            return _text("date")
        case types.TimeDeltaType():
            return _text("duration")
        case types.UUIDType():
            return _text("uuid")
        case types.DecimalType():
            return _text("decimal")
        case _:
            return {"python": f"{type(info).__name__} {getattr(info, 'cls', '')}".strip()}


def _text(format: str) -> Schema:
    return {"type": "string", "format": format}


def _enum(cls: Any) -> Schema:
    values = sorted((member.value for member in cls), key=_by_type)
    if issubclass(cls, enum.Flag):  # several of them at once
        return {"type": "integer", "flags": values}
    return {"enum": values}


def _array(prefix: list[Schema], rest: Schema | None, least: int, most: int | None) -> Schema:
    """An array: what stands at its first places, what comes behind (None: nothing), how many."""
    schema: Schema = {"type": "array"}
    if prefix:
        schema["prefixItems"] = prefix
    if rest is None:
        schema["items"] = False
    elif rest:
        schema["items"] = rest
    return schema | _limits("Items", least or None, most)


def _limits(what: str, least: int | None, most: int | None) -> Schema:
    return _given({f"min{what}": least, f"max{what}": most})


def _given(found: Mapping[str, Any] = {}, **more: Any) -> Schema:
    return {name: value for name, value in {**found, **more}.items() if value is not None}


def _default(field: types.Field) -> Schema:
    """The default, if it is one that JSON can show. What a factory makes is not asked for."""
    if field.default is not msgspec.NODEFAULT:
        try:
            shown = msgspec.to_builtins(field.default, order="deterministic")
            return {"default": msgspec.json.decode(msgspec.json.encode(shown))}
        except Exception:  # whatever a value of the user's does
            return {}
    if field.default_factory is dict:
        return {"default": {}}
    return {"default": []} if field.default_factory in (list, tuple, set, frozenset) else {}


def _words(said: Mapping[str, Any] | None) -> Schema:
    return {name: (said or {})[name] for name in _PAGES if name in (said or {})}


def _name(cls: Any) -> str:
    origin = getattr(cls, "__origin__", cls)
    arguments = getattr(cls, "__args__", ())
    inner = ", ".join(getattr(a, "__name__", repr(a)) for a in arguments)
    return f"{origin.__name__}[{inner}]" if arguments else str(origin.__name__)


def _doc(info: Any) -> Schema:
    """What the author of a class says of it; not what Python makes up."""
    cls = getattr(info.cls, "__origin__", info.cls)
    doc = vars(cls).get("__doc__") or ""
    made_up = doc == "An enumeration." or doc.startswith(f"{cls.__name__}(")
    return {} if made_up or not doc else {"description": textwrap.dedent(doc).strip()}


def _rank(schema: Schema) -> tuple[bool, str]:
    """None comes last, as one writes it; otherwise the order is that of the text."""
    return schema.get("type") == "null", msgspec.json.encode(schema, order="sorted").decode()


def _by_type(value: object) -> tuple[str, Any]:
    return type(value).__name__, "" if value is None else value
