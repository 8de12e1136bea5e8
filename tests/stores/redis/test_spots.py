"""Due and number, as they stand in a place and at the beginning of a record."""

from __future__ import annotations

import itertools
import random

import pytest

from bee_core.message import Draft
from bee_redis import RedisBroker
from bee_redis.keys import keys
from bee_redis.msg import read_spot
from bee_redis.scripts import FILES
from tests.servers import RedisServer

from .support import QUEUE, drained, ids, key, lease, send

NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
LATEST = 250_000_000_000 * 1_000_000
PACK = """
local found = {}
for i = 1, #ARGV, 2 do
  local packed = spot(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) .. 'name'
  local due, number = read_spot('?' .. packed, 2)
  assert(text(due) == ARGV[i] and text(number) == ARGV[i + 1], ARGV[i] .. ' ' .. ARGV[i + 1])
  found[#found + 1] = string.sub(packed, 1, spot_size(packed, 1))
end
return found
"""


def spots(server: RedisServer, pairs: list[tuple[int, int]]) -> list[bytes]:
    """As layout.lua packs them, having read them back."""
    script = (FILES / "layout.lua").read_text("utf-8") + PACK
    numbers = [number for pair in pairs for number in pair]
    found: list[bytes] = server.ask("EVAL", script, 14, *keys("bee", QUEUE), *numbers)
    return found


def pairs_of_every_kind() -> list[tuple[int, int]]:
    """Due and number: near each other, far, at the limits between, and with the same due."""
    chance = random.Random(8)
    apart = [
        0,
        1,
        -1,
        1000,
        2**31,
        -(2**31),
        *(s * 127 * 2**24 + d for s in (1, -1) for d in range(-2, 3)),
    ]
    apart += [chance.randrange(-(2**45), 2**45) for _ in range(50)]
    apart += [chance.randrange(-HOUR, HOUR) for _ in range(50)]
    dues = [NOW, NOW + 1, NOW + 255, NOW + 256, *(NOW + chance.randrange(2**40) for _ in range(3))]
    found = [(due, due + more) for due in dues for more in apart if due + more >= 0]
    return [*found, (0, NOW), (1, NOW), (LATEST, NOW), (LATEST // 4, NOW)]


def test_they_are_in_the_order_of_due_and_number(server: RedisServer) -> None:
    pairs = sorted(set(pairs_of_every_kind()))

    found = spots(server, pairs)

    assert found == sorted(found)
    assert len(set(found)) == len(pairs)


def test_none_is_the_beginning_of_another(server: RedisServer) -> None:
    """So a name behind one never matters for the order, and a stale place is told by comparing."""
    found = sorted(spots(server, pairs_of_every_kind()))

    assert not any(
        second.startswith(first) and first != second for first, second in itertools.pairwise(found)
    )


def test_the_client_reads_what_the_server_packs(server: RedisServer) -> None:
    pairs = pairs_of_every_kind()

    for pair, spot in zip(pairs, spots(server, pairs), strict=True):
        assert (*pair, len(spot) + 3) == read_spot(b"???" + spot + b"behind", 3)


@pytest.mark.parametrize("ahead", [HOUR // 2, HOUR, 24 * HOUR])
async def test_the_order_stays_when_numbers_are_ahead_of_the_clock(
    server: RedisServer, broker: RedisBroker, ahead: int
) -> None:
    """As after the server's clock has gone back: then spots are long."""
    await send(broker, "a")
    number = int(server.ask("HGET", key("head"), "number"))
    server.ask("HSET", key("head"), "number", number + ahead)
    for id in "bc":
        await send(broker, id)
    await send(broker, "d", "e", "f")
    await broker.send(QUEUE, [Draft("first", b"", priority=1, headers={"a": "b"})])

    sizes = {len(place) for place in server.ask("ZRANGE", key("ready"), 1, -1)}

    assert {12 + 1, 17 + 1} == sizes if ahead > HOUR // 2 else {12 + 1} == sizes
    assert ["first", "a", "b"] == ids(await lease(broker, 3))
    assert ["c", "d", "e", "f"] == ids(await lease(broker))


async def test_what_was_delayed_for_long_comes_in_order(
    server: RedisServer, broker: RedisBroker
) -> None:
    """Its number is that of a day ago, its due time now."""
    wanted = [f"m{n}" for n in range(10)]
    await send(broker, *wanted, delay=86_400)
    before = server.ask("ZRANGE", key("delayed"), 0, -1)
    server.ask("DEL", key("delayed"))
    seconds, rest = server.ask("TIME")
    due = int(seconds) * 1_000_000 + int(rest)
    for place in before:  # as if a day had passed
        id = place[9:]
        number = int.from_bytes(place[1:9], "big")
        (spot,) = spots(server, [(due, number - 86_400_000_000)])
        msg = server.ask("HGET", key("msg"), id)
        server.ask("HSET", key("msg"), id, spot + msg[read_spot(msg, 0)[2] :])
        server.ask(
            "ZADD",
            key("delayed"),
            due,
            place[:1] + (number - 86_400_000_000).to_bytes(8, "big") + id,
        )

    assert wanted == await drained(broker)
