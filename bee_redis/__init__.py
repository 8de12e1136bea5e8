"""bee's broker on Redis (7.0 or newer) and Valkey: alone, in a cluster, behind Sentinel."""

from bee_redis.broker import RedisBroker

__all__ = ["RedisBroker"]
