"""Garbage in any key and in any column: nobody else's message is lost, and the queue goes on."""

from __future__ import annotations

import random

import psycopg
import pytest

from bee_pg import PgBroker
from bee_redis import RedisBroker
from tests.fuzz import foreign
from tests.servers import PgServer, RedisServer

ALL = {*foreign.GOOD, "new"}


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_is_written_into_the_keys_the_others_come(
    seed: int, valkey: RedisServer
) -> None:
    chance = random.Random(seed)
    for number in range(10):
        prefix = f"foreign-{seed}-{number}"
        async with RedisBroker(valkey.url, prefix=prefix) as broker:
            await foreign.fill(broker)
            done = [foreign.damage_redis(valkey, prefix, chance) for _ in range(3)]
            await foreign.look(broker)

            assert ALL == await foreign.good_ones_come(broker), done
            await broker.drop(foreign.QUEUE)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_written_into_the_columns_the_others_come(
    seed: int, pg: PgServer
) -> None:
    chance, url = random.Random(seed), pg.database()
    async with (
        PgBroker(url, migrate=True) as broker,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        for _ in range(8):
            await foreign.fill(broker)
            done = [await foreign.damage_pg(connection, chance) for _ in range(3)]
            await foreign.look(broker)

            assert ALL == await foreign.good_ones_come(broker), done
            await connection.execute(foreign.EMPTY)
