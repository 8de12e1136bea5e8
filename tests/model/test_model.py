"""Every broker does what the model says: the short form of `python -m tests.model.stores`."""

from __future__ import annotations

import asyncio

import pytest
from click.testing import CliRunner

from bee_core.testing.model.__main__ import main
from bee_pg import PgBroker
from tests.model.stores import on_memory, on_postgres, on_valkey
from tests.servers import PgServer, RedisServer

RUNS = 12


def test_the_memory_broker_does_what_the_model_says() -> None:
    card = on_memory(runs=3 * RUNS, seed=1)

    assert "passed" in str(card)
    assert card.tally["runs worked off"] >= 3 * RUNS


@pytest.mark.timeout(300)
def test_valkey_does_what_the_model_says(valkey: RedisServer) -> None:
    card = on_valkey(valkey, runs=RUNS, seed=1)

    assert card.tally["disturbances"] > 0, "it has forgotten its scripts"
    assert "Valkey" in str(card)


@pytest.mark.timeout(300)
def test_postgres_does_what_the_model_says(pg16: PgServer) -> None:
    card = on_postgres(pg16, runs=RUNS, seed=1)

    assert card.tally["moves of the clock"] > 0
    assert "PostgreSQL" in str(card)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", ["memory", "valkey", "pg"])
def test_a_broker_behind_a_url_gets_its_card_without_a_clock_that_is_moved(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = "memory://" if store == "memory" else request.getfixturevalue(store).url
    if store == "pg":
        asyncio.run(_migrate(url))

    result = CliRunner().invoke(main, [url, "--runs", "3", "--steps", "30", "--seed", "7"])

    assert 0 == result.exit_code, result.output
    assert "seed 7" in result.output
    assert "result    passed" in result.output


async def _migrate(url: str) -> None:
    async with PgBroker(url, migrate=True) as broker:
        await broker.queues()
