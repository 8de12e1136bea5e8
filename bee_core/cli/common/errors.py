"""How a command ends if it does not end well: one sentence, and an exit code that says whose fault.

1  it was looked at, and is not as asked: not found, a problem found, some not done
2  what was typed, or set, cannot be used
3  the store does not answer, or refuses; or its driver is missing
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from bee_core.errors import BeeError, BrokerError, InvalidInput, UnknownScheme
from bee_core.service.exits import Exit


class NotThere(click.ClickException):
    """What was asked for is not in the store."""

    exit_code = 1


class WrongUse(click.ClickException):
    """What was typed cannot be done. One sentence, without the usage."""

    exit_code = Exit.USAGE


class CannotAsk(click.ClickException):
    """The store does not answer, or refuses."""

    exit_code = 3


@contextmanager
def told_plainly() -> Iterator[None]:
    """bee's errors as one sentence each: 2 for wrong use, 3 for the store's, 1 for others."""
    try:
        yield
    except (InvalidInput, UnknownScheme) as error:
        raise WrongUse(str(error)) from error
    except (BrokerError, ImportError) as error:
        raise CannotAsk(str(error)) from error
    except BeeError as error:
        raise click.ClickException(str(error)) from error
