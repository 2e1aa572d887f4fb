"""The registry keeps ended operations and applies for a limited time, on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.aio.client import Client
from redis.asyncio import Redis

from running.servers import Server
from towpath.contracts.commands import JournalEntry, OperationKind, OperationState
from towpath.contracts.errors import TowpathError
from towpath.contracts.pipeline import Action, ApplyState, ChangeState, PipelineSpec, PlannedChange
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord, PipelineRecord
from towpath.coordinator.registry import jobs as registry_module
from towpath.coordinator.registry.jobs import Registry, journal_key, record_key
from towpath.coordinator.registry.log import RegistryLog
from towpath.coordinator.registry.pipelines import ChangedMeanwhile, PipelineStore, apply_key
from towpath.protocols.record import OperationRecord
from towpath.protocols.runner import Superseded

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def redis(redis_server: Server) -> AsyncIterator[Redis]:
    async with Redis(port=redis_server.port, decode_responses=True) as client:
        yield client


@pytest.fixture
async def registry(redis: Redis, connection: Client, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(registry_module, "OPERATIONS_KEPT", 3)
    monkeypatch.setattr(registry_module, "MIGRATIONS_KEPT", 2)
    monkeypatch.setattr(registry_module, "FORGET_EVERY", 1)
    log = RegistryLog(connection)
    await log.ensure()
    return Registry(redis, log)


async def begin(
    registry: Registry, number: int, kind: OperationKind = OperationKind.REMOVE
) -> OperationRecord:
    record = OperationRecord(
        id=f"o{number}",
        command=f"c{number}",
        kind=kind,
        job=f"job-{number}",
        old_epoch=0,
        new_epoch=1,
        begun_at=BEGUN + timedelta(seconds=number),
    )
    await registry.begin(record)
    return record


async def end(registry: Registry, record: OperationRecord) -> None:
    await registry.finish(record.model_copy(update={"state": OperationState.COMPLETED}), 0, None)
    await registry.announced(record.id)


async def kept(registry: Registry) -> list[str]:
    return [record.id for record in await registry.latest(100)]


async def test_history_when_more_end_than_are_kept_then_the_oldest_are_gone_with_all_their_keys(
    registry: Registry, redis: Redis
) -> None:
    for number in range(6):
        await end(registry, await begin(registry, number))
    assert await kept(registry) == ["o5", "o4", "o3"]
    assert await redis.exists(record_key("o1"), journal_key("o1")) == 0
    assert await registry.operation_of("c1") is None
    assert await registry.operation_of("c4") == "o4"


async def test_history_when_the_oldest_has_not_ended_then_it_stays(registry: Registry) -> None:
    oldest = await begin(registry, 0)
    for number in range(1, 6):
        await end(registry, await begin(registry, number))
    assert await kept(registry) == ["o5", "o4", "o3", "o0"]
    await end(registry, oldest)
    assert await kept(registry) == ["o5", "o4", "o3"]


async def test_history_when_many_jobs_are_deployed_then_migrations_are_not_forgotten_for_them(
    registry: Registry,
) -> None:
    for number in range(3):
        await end(registry, await begin(registry, number, OperationKind.MIGRATE))
    for number in range(3, 9):
        await end(registry, await begin(registry, number))
    assert await kept(registry) == ["o8", "o7", "o6", "o2", "o1"]


async def test_operation_when_a_replaced_coordinator_writes_to_its_forgotten_journal_then_it_gives_up(
    registry: Registry,
) -> None:
    oldest = await begin(registry, 0)
    for number in range(6):
        await end(registry, oldest if number == 0 else await begin(registry, number))
    line = JournalEntry(step="stop-job", phase="begun", at=BEGUN)
    with pytest.raises(Superseded):
        await registry.append(oldest, line, 0, None)
    assert await kept(registry) == ["o5", "o4", "o3"]


def apply_of(number: int) -> tuple[ApplyRecord, dict[str, ChangeRecord]]:
    body: dict[str, Any] = {
        "name": "a",
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/x"}],
        "output": {"topic": "y"},
        "operator": {"kind": "forward"},
    }
    record = ApplyRecord(
        id=f"a{number}",
        command=f"c{number}",
        version=number,
        spec=PipelineSpec.model_validate({"name": "delays", "jobs": [body]}),
        at_once=4,
        order=["a"],
        begun_at=BEGUN,
    )
    planned = PlannedChange(job="a", actions=[Action.ADD], reason="new")
    return record, {"a": ChangeRecord(change=planned, state=ChangeState.COMPLETED, operations=["o1"])}


async def test_apply_when_it_has_ended_then_it_is_read_as_it_was_and_the_one_before_it_expires(
    registry: Registry, redis: Redis
) -> None:
    store = PipelineStore(registry)
    before: PipelineRecord | None = None
    for number in (1, 2):
        record, changes = apply_of(number)
        await store.begin(record, changes, before, None)
        assert (await store.load(record.id))[1] == changes
        ended = record.model_copy(update={"state": ApplyState.COMPLETED})
        before = PipelineRecord(name="delays", version=number, apply=record.id)
        await store.end(ended, changes, before)
        assert await store.load(record.id) == (ended, changes)
    assert await redis.ttl(apply_key("a1")) > 0
    assert await redis.ttl(apply_key("a2")) == -1


async def test_apply_when_its_pipeline_is_forgotten_then_it_expires_too(
    registry: Registry, redis: Redis
) -> None:
    store = PipelineStore(registry)
    record, changes = apply_of(1)
    await store.begin(record, changes, None, None)
    await store.end(record.model_copy(update={"state": ApplyState.COMPLETED}), changes, None)
    assert await redis.ttl(apply_key("a1")) > 0
    with pytest.raises(TowpathError):
        await store.pipeline("delays")


async def test_apply_when_a_replaced_coordinator_ends_it_once_more_then_the_next_one_goes_on(
    registry: Registry,
) -> None:
    store = PipelineStore(registry)
    (first, changes), (second, more) = apply_of(1), apply_of(2)
    await store.begin(first, changes, None, None)
    after_first = PipelineRecord(name="delays", version=1, apply="a1")
    await store.end(first.model_copy(update={"state": ApplyState.COMPLETED}), changes, after_first)
    await store.begin(second, more, after_first, None)
    late = {"a": changes["a"].model_copy(update={"state": ChangeState.FAILED})}
    await store.save_change("a1", late["a"])
    await store.end(first.model_copy(update={"state": ApplyState.FAILED}), late, after_first)
    assert (await store.load("a1"))[0].state is ApplyState.COMPLETED
    assert (await store.load("a1"))[1] == changes
    assert (await store.pipeline("delays")).apply == "a2"
    assert await store.unfinished() == ["a2"]


async def test_apply_when_it_was_decided_before_another_of_the_same_version_then_is_decided_again(
    registry: Registry,
) -> None:
    store = PipelineStore(registry)
    (first, changes), (second, _), (third, _) = apply_of(1), apply_of(2), apply_of(3)
    await store.begin(first, changes, None, None)
    decided_on = PipelineRecord(name="delays", version=1, apply="a1")
    await store.end(first.model_copy(update={"state": ApplyState.FAILED}), changes, decided_on)
    retried = second.model_copy(update={"version": 1})
    await store.begin(retried, changes, decided_on, None)
    ended = retried.model_copy(update={"state": ApplyState.COMPLETED})
    await store.end(ended, changes, PipelineRecord(name="delays", version=1, apply="a2"))
    with pytest.raises(ChangedMeanwhile):
        await store.begin(third.model_copy(update={"version": 1}), changes, decided_on, None)
