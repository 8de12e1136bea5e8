"""The Redis broker keeps the contract: on Valkey and on Redis, in both protocols, in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bee_core.broker import Store
from bee_core.ids import new_id
from bee_core.testing.conformance import BrokerConformance, Harness
from bee_redis import RedisBroker
from tests.servers import RedisCluster, RedisServer


class RedisHarness:
    """Real time, in tenths of a second."""

    unit = 0.1

    def __init__(self, broker: Store) -> None:
        self.broker = broker
        self.queue = f"q{new_id()[-12:]}"
        self.other_queue = f"{self.queue}-other"

    async def advance(self, units: float) -> None:
        await asyncio.sleep(units * self.unit)


class OnRedis(BrokerConformance):
    url: str
    parameters = ""

    @asynccontextmanager
    async def harness(self) -> AsyncIterator[Harness]:
        async with RedisBroker(self.url + self.parameters) as broker:
            yield RedisHarness(broker)


class TestValkey(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, valkey: RedisServer) -> None:
        self.url = valkey.url


class TestValkeyWithResp3(OnRedis):
    parameters = "?protocol=3"

    @pytest.fixture(autouse=True)
    def _server(self, valkey: RedisServer) -> None:
        self.url = valkey.url


class TestRedis7(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, redis7: RedisServer) -> None:
        self.url = redis7.url


class TestCluster(OnRedis):
    @pytest.fixture(autouse=True)
    def _server(self, cluster: RedisCluster) -> None:
        self.url = cluster.url
