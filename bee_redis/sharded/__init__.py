"""Queues that are spread over n parts, so that one queue outgrows one node of a cluster.

Each part is an unsharded queue with a hash tag of its own, and every verb is that verb on the parts
that it concerns. A message is in the part that its id says, so what concerns one message is as it
always is. What concerns several parts is atomic for each of them; what cannot be kept over several
is refused. The reasons are in `docs/adr/0028-shards.md`.
"""

from bee_redis.sharded.broker import ShardedBroker

__all__ = ["ShardedBroker"]
