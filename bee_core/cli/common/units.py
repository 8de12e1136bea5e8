"""Durations and sizes as people type them: `30s`, `5m`, `512M`. Callbacks for options of click."""

from __future__ import annotations

import re

import click

from bee_core.duration import seconds
from bee_core.errors import InvalidOption

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([a-zA-Z]*)", re.ASCII)
_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def duration(given: str | float) -> float:
    """Seconds, or a number with one of ms, s, m, h, d; InvalidOption otherwise."""
    if not isinstance(given, str):
        return seconds(given, "it")
    found = _AMOUNT.fullmatch(given)
    if found is None or found[2] not in _SECONDS:
        raise InvalidOption(f"{given!r} is not a duration like 25s, 5m or 1h")
    return seconds(float(found[1]) * _SECONDS[found[2]], "it")


def as_seconds(context: click.Context, option: click.Parameter, given: str | None) -> float | None:
    """An option that is a `duration`."""
    try:
        return None if given is None else duration(given)
    except InvalidOption as error:
        raise click.BadParameter(str(error)) from error


def as_address(
    context: click.Context, option: click.Parameter, given: str | None
) -> tuple[str, int] | None:
    """`HOST:PORT`, or a port of all addresses of this machine."""
    if given is None:
        return None
    host, _, port = given.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise click.BadParameter(f"{given!r} is not a port, or an address like 127.0.0.1:9090")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104


def as_bytes(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """Bytes, or a number with one of K, M, G."""
    if given is None:
        return None
    found = _AMOUNT.fullmatch(given)
    unit = "" if found is None else found[2].lower().removesuffix("b").removesuffix("i")
    if found is None or unit not in _BYTES or float(found[1]) * _BYTES[unit] < 1:
        raise click.BadParameter(f"{given!r} is not a size like 512M or 2G")
    return int(float(found[1]) * _BYTES[unit])
