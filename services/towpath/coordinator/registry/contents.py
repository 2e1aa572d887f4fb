"""The whole registry as commands that bring an empty Redis to the same state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from redis.asyncio import Redis

from towpath.checkpoints.transfer_keys import TRANSFERS
from towpath.coordinator.registry.log import RedisCommand

PREFIX = "towpath:"

APPLIED = f"{PREFIX}applied"
"""Key with the place in the log up to which this Redis has applied it."""

LEADER = f"{PREFIX}leader"
"""Key with the term under way, and the coordinator that leads in it."""

_NO_CONTENT = (APPLIED, LEADER)

UNDER_WAY = frozenset(f"{PREFIX}{name}" for name in ("locks", "unfinished", "aborts", "finishes", "applies"))
"""Keys with what is under way. A copy of the registry has none of it when it is brought back."""

AT_ONCE = 100
"""Keys that are read at once, and members that one command writes."""


async def registry_keys(redis: Redis) -> list[str]:
    """Return all keys of the registry. State on its way from site to site is no part of it."""
    found = [key async for key in redis.scan_iter(match=f"{PREFIX}*", count=1000)]
    return sorted(key for key in set(found) if key not in _NO_CONTENT and not key.startswith(TRANSFERS))


async def contents(redis: Redis) -> list[RedisCommand]:
    """Return commands that write the present registry. No one may write meanwhile."""
    commands: list[RedisCommand] = []
    for keys in _groups(await registry_keys(redis)):
        asked = redis.pipeline(transaction=False)
        for key in keys:
            asked.type(key)
            asked.pttl(key)
        told = await asked.execute()
        kinds, left_ms = told[0::2], told[1::2]
        asked = redis.pipeline(transaction=False)
        for key, kind in zip(keys, kinds, strict=True):
            _READ[kind](asked, key)
        values = await asked.execute()
        for key, kind, value, left in zip(keys, kinds, values, left_ms, strict=True):
            commands += _written(key, kind, value)
            if left >= 0:
                commands.append(("PEXPIREAT", key, str(int(time.time() * 1000) + left)))
    return commands


def replacing(keys: Sequence[str], commands: Sequence[RedisCommand]) -> Iterator[RedisCommand]:
    """Yield commands that delete `keys`, and then `commands`."""
    for some in _groups(keys):
        yield ("DEL", *some)
    yield from commands


def is_content(command: Sequence[Any]) -> bool:
    """Tell if a command is one of those that `contents` returns."""
    verb, key = (*command[:2], "")[:2] if command else ("", "")
    written = verb in ("SET", "HSET", "SADD", "RPUSH", "ZADD", "PEXPIREAT")
    strings = all(isinstance(part, str) for part in command)
    return strings and written and key.startswith(PREFIX) and not key.startswith((TRANSFERS, *_NO_CONTENT))


_READ: Mapping[str, Any] = {
    "string": lambda redis, key: redis.get(key),
    "hash": lambda redis, key: redis.hgetall(key),
    "set": lambda redis, key: redis.smembers(key),
    "list": lambda redis, key: redis.lrange(key, 0, -1),
    "zset": lambda redis, key: redis.zrange(key, 0, -1, withscores=True),
    # It expired between the two questions.
    "none": lambda redis, key: redis.get(key),
}


def _written(key: str, kind: str, value: Any) -> Iterator[RedisCommand]:
    if kind == "string":
        yield ("SET", key, value)
    elif kind == "hash":
        for some in _groups([*value.items()]):
            yield ("HSET", key, *(part for pair in some for part in pair))
    elif kind == "set":
        for some in _groups(sorted(value)):
            yield ("SADD", key, *some)
    elif kind == "list":
        for some in _groups(value):
            yield ("RPUSH", key, *some)
    elif kind == "zset":
        for some in _groups(value):
            yield ("ZADD", key, *(part for member, score in some for part in (repr(score), member)))


def _groups(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
