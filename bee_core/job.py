"""`Job`, the base class of the user's own job classes, and what a type says about its jobs.

A job class is a frozen msgspec struct with a tag. The tag is its name on the wire: a class
may be renamed or moved freely as long as its tag stays.
"""

from __future__ import annotations

import re
import types
import typing
from typing import Any, Generic, TypeVar, dataclass_transform

import msgspec
import typing_extensions

from bee_core.errors import InvalidOption
from bee_core.strategy import Policy, check_policy

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """`SendEmail` → `send_email`."""
    return _HUMP.sub("_", name).lower()


def _is_uncollected(base: type) -> bool:
    """Whether a job class may derive from it and be none of the garbage collector's business."""
    return base is Generic or (isinstance(base, JobMeta) and not base.__struct_config__.gc)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class JobMeta(msgspec.StructMeta):
    """Makes every subclass of Job frozen and tagged, and takes its policy."""

    __policy__: Policy

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        tag: str | None = None,
        policy: Policy | None = None,
        **config: Any,
    ) -> Any:
        if config.get("frozen") is False:
            raise InvalidOption(f"{name}: jobs are frozen; a queue would not see a later change")
        if config.get("weakref") or config.get("dict") or not all(map(_is_uncollected, bases)):
            config.setdefault("gc", True)  # msgspec has it no other way
        config |= {"frozen": True, "tag_field": "type", "tag": tag or snake_case(name)}
        cls = super().__new__(mcls, name, bases, namespace, **config)
        if policy is not None:
            cls.__policy__ = check_policy(policy)
        return cls


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Job(msgspec.Struct, metaclass=JobMeta, gc=False):
    """Derive from it and add fields: `class SendEmail(bee.Job): to: str; subject: str`.

    `tag=` is the name on the wire (default: the class name in snake_case), `policy=` what
    this class asks for where `send` says nothing. Other keywords are msgspec's own
    (`kw_only=True`, `rename=...`, `forbid_unknown_fields=True`). Jobs are data, in which nothing
    leads back to the job itself, so the garbage collector does not look for that, which takes
    time; `gc=True` lets it.
    """


def policy_of(kind: type) -> Policy | None:
    """The policy that a job class asks for."""
    policy = getattr(kind, "__policy__", None)
    return policy if isinstance(policy, Policy) else None


def tag_of(kind: type) -> str:
    """The name of a job class on the wire, or the class name if it has no tag."""
    config = getattr(kind, "__struct_config__", None)
    tag = None if config is None else config.tag
    return kind.__name__ if tag is None else str(tag)


def members(form: object) -> tuple[type, ...]:
    """The classes that a job type stands for: itself, or the members of the union."""
    return tuple(typing.get_origin(part) or part for part in parts(form))


def parts(form: object) -> tuple[Any, ...]:
    """What a job type is made of, aliases and annotations taken off."""
    if isinstance(form, _ALIASES):
        return parts(form.__value__)
    origin = typing.get_origin(form)
    if origin is typing.Annotated:
        return parts(typing.get_args(form)[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(part for member in typing.get_args(form) for part in parts(member))
    if isinstance(form, TypeVar) or not isinstance(origin or form, type):
        raise InvalidOption(f"{form!r} is not a job type: give a class or a union of classes")
    return (form,)


_ALIASES: tuple[Any, ...] = (
    typing_extensions.TypeAliasType,
    getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType),
)
