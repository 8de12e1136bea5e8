"""The pytest plugin: `bee_clock`, and `bee_hive` to put your hive under test.

async def test_the_mail_is_sent_an_hour_later(bee_hive):
    async with bee_hive(hive) as bees:
        await mail.send(SendEmail(to="ada@example.org"), delay=3600)
        await bees.advance(3600)
        assert outbox == ["ada@example.org"]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bee_core.testing.clock import ManualClock
    from bee_core.testing.hive import HiveUnderTest


@pytest.fixture
def bee_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from bee_core.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def bee_hive(bee_clock: ManualClock) -> Callable[..., AbstractAsyncContextManager[HiveUnderTest]]:
    """`async with bee_hive(hive) as bees:` runs your hive on a memory broker and `bee_clock`."""
    from bee_core.testing.hive import running

    return partial(running, clock=bee_clock)
