"""The policy that a job was sent with: read, changed, put into words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from bee_core.cli.common.words import count, one_line, span
from bee_core.disposition import Archive, Delete, Reschedule
from bee_core.queue import POLICY_HEADER
from bee_core.strategy import Backoff, Policy, Repeat, overlay


def policy_of(headers: Mapping[str, str]) -> Policy:
    """What a job's headers ask for; MsgspecError if that cannot be read."""
    text = headers.get(POLICY_HEADER)
    return Policy() if text is None else msgspec.json.decode(text, type=Policy)


def with_policy(headers: Mapping[str, str], policy: Policy) -> dict[str, str]:
    """The same headers, but what this policy says comes first."""
    both = overlay(policy, policy_of(headers))
    return {**headers, POLICY_HEADER: msgspec.json.encode(both).decode()}


def policy_words(policy: Policy) -> Iterator[tuple[str, str]]:
    """What a policy asks for, name by name; only what is set."""
    for name in policy.__struct_fields__:
        value = getattr(policy, name)
        if value is not UNSET:
            yield name, _strategy(value)


def _strategy(value: Any) -> str:
    match value:
        case None:
            return "none"
        case int() | float():
            return span(value)
        case Delete():
            return "delete"
        case Archive():
            return "archive"
        case Reschedule(delay=delay, front=front):
            place = " at the front" if front else ""
            return f"again{place}" if not delay else f"again in {span(delay)}{place}"
        case Repeat(times=times, otherwise=otherwise, backoff=backoff):
            how = "repeat for ever" if times is None else f"repeat {count(times, 'time')}"
            then = "" if times is None else f", then {_strategy(otherwise)}"
            return how + then + ("" if backoff is None else f" (backoff {_strategy(backoff)})")
        case Backoff(min=least, factor=factor, max=most, jitter=jitter):
            return f"{span(least)}, times {factor:g} each, at most {span(most)}, jitter {jitter:g}"
        case _:
            return one_line(repr(value))
