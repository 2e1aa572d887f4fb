"""The registry outlives its Redis: what was written is in a stream of the hub, on real servers."""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import AsyncIterator, Iterable

import pytest
from nats.aio.client import Client
from redis.asyncio import Redis

from running.servers import Server
from running.waiting import WITHIN_S, eventually
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.coordinator.registry import replica
from towpath.coordinator.registry.contents import contents
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.registry.log import STREAM, RedisCommand, RegistryLog
from towpath.tasks import end

SCRIPT = "return redis.call('RPUSH', KEYS[1], ARGV[1])"


@pytest.fixture
async def redis(redis_server: Server) -> AsyncIterator[Redis]:
    async with Redis(port=redis_server.port, decode_responses=True) as client:
        yield client


@pytest.fixture
async def registry(redis: Redis, connection: Client) -> Registry:
    return await opened(redis, connection)


async def opened(redis: Redis, connection: Client) -> Registry:
    log = RegistryLog(connection)
    await log.ensure()
    registry = Registry(redis, log)
    await registry.bring_up()
    return registry


async def write_some(registry: Registry) -> None:
    await asyncio.gather(*(registry.write(("HSET", "towpath:jobs", f"job-{n}", "old")) for n in range(100)))
    await registry.write(
        ("HSET", "towpath:jobs", "job-1", "new"),
        ("RPUSH", "towpath:journal:o1", "begun", "ended"),
        ("SADD", "towpath:unfinished", "o1"),
        ("ZADD", "towpath:operations", "1.5", "o1"),
        ("SET", "towpath:command:c1", "o1", "EX", "1000"),
        ("EVAL", "return redis.call('INCR', KEYS[1])", "1", "towpath:uplinks-revision"),
    )


async def kept(redis: Redis) -> dict[str, list[str]]:
    """Return the registry without the order of members and the times at which keys expire."""
    commands = [command for command in await contents(redis) if command[0] != "PEXPIREAT"]
    return {key: sorted(parts) for _, key, *parts in commands}


async def test_registry_when_its_redis_is_emptied_then_the_next_coordinator_has_everything(
    registry: Registry, redis: Redis, connection: Client
) -> None:
    await write_some(registry)
    before = await kept(redis)

    await redis.flushall()
    after = await opened(redis, connection)

    assert await kept(redis) == before
    assert 0 < await redis.ttl("towpath:command:c1") <= 1000
    assert await after.call("hget", "towpath:jobs", "job-1") == "new"


async def test_write_when_there_is_nothing_to_write_then_returns(registry: Registry) -> None:
    assert await registry.write() == []


async def test_writes_when_they_are_large_and_wait_together_then_each_is_stored(registry: Registry) -> None:
    noise = random.Random(1).randbytes(400_000).hex()
    writes = [registry.write(("HSET", "towpath:jobs", f"job-{n}", noise)) for n in range(4)]
    assert await asyncio.gather(*writes) == [[1]] * 4


async def test_write_when_it_is_larger_than_a_message_then_is_refused_and_others_are_not(
    registry: Registry,
) -> None:
    noise = random.Random(1).randbytes(12_000_000).hex()
    for large, why in ((noise, "too large"), (noise[:4_000_000], "the hub takes no message")):
        with pytest.raises(TowpathError, match=why):
            await registry.write(("HSET", "towpath:jobs", "job", large))
    assert await registry.write(("HSET", "towpath:jobs", "job", "small")) == [1]


async def test_registry_when_its_redis_is_emptied_under_it_then_the_next_write_finds_everything(
    registry: Registry, redis: Redis
) -> None:
    await write_some(registry)

    await redis.flushall()
    (count,) = await registry.write(("HSET", "towpath:jobs", "another", "job"))

    assert count == 1
    assert await redis.hlen("towpath:jobs") == 101


async def test_registry_when_redis_comes_back_from_an_old_copy_then_gets_what_it_misses(
    registry: Registry, redis: Redis, connection: Client
) -> None:
    await registry.write(("HSET", "towpath:jobs", "a", "1"))
    place = await redis.get("towpath:applied")
    await registry.write(("HSET", "towpath:jobs", "a", "2"))

    await redis.hset("towpath:jobs", "a", "1")
    await redis.set("towpath:applied", place or "")
    await opened(redis, connection)

    assert await redis.hget("towpath:jobs", "a") == "2"


async def test_log_when_it_grows_then_a_snapshot_takes_the_place_of_its_entries(
    registry: Registry, redis: Redis, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "SNAPSHOT_EVERY", 20)
    await redis.set("towpath:transfer:o1:state", "state on its way")
    for number in range(50):
        await registry.write(("HSET", "towpath:jobs", f"job-{number}", "x" * 1000))
    before = await kept(redis)

    info = await connection.jetstream().stream_info(STREAM)
    await redis.flushall()
    await opened(redis, connection)

    assert info.state.messages < 25
    assert await kept(redis) == before
    assert not await redis.exists("towpath:transfer:o1:state")


async def test_registry_when_the_log_is_new_then_redis_is_what_there_is(
    redis: Redis, connection: Client
) -> None:
    await redis.hset("towpath:jobs", "a", "of an earlier version")
    await opened(redis, connection)

    await redis.flushall()
    await opened(redis, connection)

    assert await redis.hgetall("towpath:jobs") == {"a": "of an earlier version"}


async def test_registry_when_two_coordinators_write_at_once_then_redis_has_the_order_of_the_log(
    registry: Registry, redis: Redis, connection: Client
) -> None:
    other = await opened(redis, connection)
    writes = [
        each.write(("RPUSH", "towpath:journal:o1", f"{name}-{number}"))
        for number in range(30)
        for name, each in (("one", registry), ("other", other))
    ]

    await asyncio.gather(*writes)
    live = await redis.lrange("towpath:journal:o1", 0, -1)
    await redis.flushall()
    await opened(redis, connection)

    assert len(live) == 60
    assert await redis.lrange("towpath:journal:o1", 0, -1) == live


async def test_write_when_both_servers_are_killed_then_waits_and_is_there_once(
    registry: Registry, redis: Redis, redis_server: Server, nats_server: Server
) -> None:
    await write_some(registry)
    writing = [asyncio.create_task(registry.write(("SADD", "towpath:set", str(n)))) for n in range(20)]
    await asyncio.sleep(0)

    await asyncio.gather(redis_server.kill(), nats_server.kill())
    await asyncio.gather(redis_server.start(), nats_server.start())
    async with asyncio.timeout(30):
        await asyncio.gather(*writing)

    assert await redis.scard("towpath:set") == 20


async def test_writes_when_the_disk_of_redis_is_full_then_wait_and_each_is_there_once(
    registry: Registry, redis: Redis, redis_server: Server
) -> None:
    assert redis_server.process is not None
    await redis.config_set("appendfsync", "everysec")
    await write_some(registry)
    unlimited = resource.prlimit(redis_server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(redis_server.process.pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))

    writing = [asyncio.create_task(registry.write(("RPUSH", "towpath:list", str(n)))) for n in range(3)]

    async def is_full() -> bool:
        return (await redis.info("persistence"))["aof_last_write_status"] == "err"

    await eventually(is_full)
    writing += [asyncio.create_task(registry.write(("RPUSH", "towpath:list", str(n)))) for n in range(3, 9)]
    await asyncio.sleep(0.5)  # Some attempts.
    waiting = [task for task in writing if not task.done()]
    resource.prlimit(redis_server.process.pid, resource.RLIMIT_FSIZE, unlimited)
    await asyncio.gather(*writing)

    assert waiting
    assert sorted(await redis.lrange("towpath:list", 0, -1)) == [str(n) for n in range(9)]


async def test_writes_when_state_on_its_way_fills_redis_then_it_is_deleted_and_they_are_there_once(
    registry: Registry, redis: Redis
) -> None:
    await write_some(registry)
    used = (await redis.info("memory"))["used_memory"]
    writes = [("RPUSH", "towpath:list", "1"), ("EVAL", SCRIPT, "1", "towpath:list", "2")]
    for number, command in enumerate(writes):
        for _ in range(20):
            await redis.xadd(f"towpath:transfer:stray:{number}", {"data": "x" * 1_000_000})
        await redis.config_set("maxmemory", used + 10_000_000)

        async with asyncio.timeout(WITHIN_S):
            await registry.write(command)
            assert await registry.lead("coordinator") == number + 1

        await redis.config_set("maxmemory", 0)
    assert await redis.lrange("towpath:list", 0, -1) == ["1", "2"]
    assert [*registry.made_room] == ["towpath:transfer:stray:0", "towpath:transfer:stray:1"]


async def test_write_when_the_one_it_is_stored_with_is_given_up_then_gets_its_answer_not_a_refusal(
    registry: Registry, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, is_late, append = asyncio.Event(), False, RegistryLog.append

    async def unanswered(log: RegistryLog, commands: Iterable[RedisCommand], id: str, after: int) -> int:
        serial = await append(log, commands, id, after)
        if not stored.is_set():
            stored.set()
            await asyncio.Event().wait()
        return serial

    def check() -> None:
        if is_late:
            raise TowpathError(ErrorCode.DEADLINE, "nothing was done")

    monkeypatch.setattr(RegistryLog, "append", unanswered)
    given_up = asyncio.create_task(registry.write(("SADD", "towpath:set", "1")))
    waiting = asyncio.create_task(registry.write(("SADD", "towpath:set", "2"), check=check))
    async with asyncio.timeout(WITHIN_S):
        await stored.wait()
        is_late = True
        await end([given_up])
        await waiting

    assert await redis.smembers("towpath:set") == {"1", "2"}


async def test_write_when_another_coordinator_leads_then_is_not_stored_and_never_returns(
    registry: Registry, redis: Redis, connection: Client
) -> None:
    assert await registry.lead("coordinator") == 1
    await registry.write(("HSET", "towpath:jobs", "job", "first"))
    other = await opened(redis, connection)
    assert await other.lead("coordinator-2") == 2

    writing = asyncio.create_task(registry.write(("HSET", "towpath:jobs", "job", "late")))
    await eventually(registry.superseded.is_set)
    await other.write(("HSET", "towpath:jobs", "job", "second"))

    assert not writing.done()
    assert await redis.hget("towpath:jobs", "job") == "second"
    await end([writing])


async def test_coordinators_when_they_begin_a_term_at_once_then_one_of_them_leads(
    redis: Redis, connection: Client
) -> None:
    registries = [await opened(redis, connection) for _ in range(4)]
    leading = [asyncio.create_task(each.lead(f"coordinator-{n}")) for n, each in enumerate(registries)]
    writing = [asyncio.create_task(each.write(("INCR", "towpath:count"))) for each in registries]

    await eventually(lambda: all(map(has_begun, leading, registries)))
    # One that had begun before the others did finds out when it writes.
    writing += [asyncio.create_task(each.write(("INCR", "towpath:count"))) for each in registries]
    await eventually(lambda: sum(each.superseded.is_set() for each in registries) == 3)
    (leader,) = (each for each in registries if not each.superseded.is_set())

    await leader.write(("INCR", "towpath:count"))
    await end([*leading, *writing])


def has_begun(leading: asyncio.Task[int], registry: Registry) -> bool:
    return leading.done() or registry.superseded.is_set()


async def test_leader_when_the_log_is_a_snapshot_and_redis_is_emptied_then_is_still_known(
    registry: Registry, redis: Redis, connection: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "SNAPSHOT_EVERY", 1)
    await registry.lead("coordinator")
    await registry.write(("HSET", "towpath:jobs", "job", "first"))
    await redis.flushall()

    assert await (await opened(redis, connection)).lead("coordinator-2") == 2
