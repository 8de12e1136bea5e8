"""The one way in for durations: seconds as int or float, or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TypeAlias

from bee_core.errors import InvalidOption

Duration: TypeAlias = float | timedelta

LONGEST = 10 * 366 * 86_400.0
"""Ten years. A longer delay is a mistake in units more often than a wish."""


def seconds(value: Duration, name: str, *, least: float = 0.0) -> float:
    """`value` in seconds, or an InvalidOption that names the argument and its range."""
    if type(value) is float or type(value) is int:  # the usual case, and never a bool
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    elif isinstance(value, timedelta):
        number = value.total_seconds()
    else:
        raise InvalidOption(
            f"{name} must be seconds (int, float) or a timedelta, not {type(value).__name__}"
        )
    if not least <= number <= LONGEST:  # also refuses NaN
        shown = number if math.isfinite(number) else str(number)
        raise InvalidOption(f"{name} must be between {least:g} s and {LONGEST:g} s, not {shown}")
    return number
