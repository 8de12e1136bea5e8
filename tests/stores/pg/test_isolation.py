"""Databases whose transactions are stricter by default: the contract holds all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bee_core.testing.conformance import BrokerConformance, Harness
from bee_core.testing.conformance.merge import Merged
from bee_core.testing.conformance.settle import Settling
from bee_core.testing.conformance.together import Together
from bee_pg import PgBroker
from tests.conformance.test_pg import PgHarness
from tests.servers import PgServer

from .races import overlap
from .support import QUEUE, ask, brokers, drained, lease, send, settle

LEVELS = ["repeatable read", "serializable"]
assert issubclass(BrokerConformance, (Together, Settling, Merged))


class TestSerializable(Together, Settling, Merged):
    """What goes wrong first when transactions see an old snapshot."""

    url: str

    @pytest.fixture(autouse=True)
    def _server(self, strict: str) -> None:
        self.url = strict

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        async with PgBroker(self.url, migrate=True) as broker:
            yield PgHarness(broker)


@pytest.fixture(scope="session")
def strict(pg: PgServer) -> str:
    return made_strict(pg.database(), "serializable")


def made_strict(url: str, level: str) -> str:
    name = ask(url, "select current_database()")[0][0]
    ask(url, f"alter database {name} set default_transaction_isolation = '{level}'")
    return url


@pytest.mark.parametrize("level", LEVELS)
async def test_many_clients_do_not_disturb_each_other(url: str, level: str) -> None:
    made_strict(url, level)
    happened = await overlap(url, 6)
    assert 48 == happened["send"]


@pytest.mark.parametrize("level", LEVELS)
async def test_every_message_is_settled_once(url: str, level: str) -> None:
    async with brokers(made_strict(url, level), 4) as some:
        wanted = [f"m{n:03}" for n in range(200)]
        await send(some[0], *wanted)

        async def work(broker: PgBroker) -> list[str]:
            came: list[str] = []
            while leases := await lease(broker, 7):
                assert set() == await settle(broker, leases)
                came += [held.receipt.id for held in leases]
            return came

        came = await asyncio.gather(*map(work, some))
        assert wanted == sorted(id for some in came for id in some)


async def test_a_level_changed_under_way_is_lived_with(url: str) -> None:
    """New connections have it, and the broker does not know."""
    async with brokers(url, 2) as (first, second):
        await send(first, *map(str, range(100)))
        made_strict(url, "serializable")
        ask(
            url,
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = current_database() and application_name = 'bee'",
        )
        came = await asyncio.gather(drained(first), drained(second))
        assert 100 == len({id for some in came for id in some})
        assert QUEUE not in await first.queues()
