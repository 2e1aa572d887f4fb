"""The watch over the state store: what it deletes, and what it tells."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from coordinator_trial import entry, job

from towpath.checkpoints.transfer_keys import transfer_key
from towpath.contracts.job import Standby
from towpath.contracts.message import Event
from towpath.contracts.standby import standby_operation
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.state_store import StateStore


async def test_look_then_tells_what_was_deleted_but_not_the_copy_that_a_failover_has_left() -> None:
    found = entry(job("saved"))
    spec = found.spec.model_copy(update={"standby": Standby(site="cloud")})
    former, present, unknown = (
        transfer_key(operation, "name")
        for operation in (standby_operation("saved", 1), standby_operation("saved", 2), "stray")
    )
    stored, told = [former, present, unknown], list[Event]()

    async def call(command: str, *arguments: str) -> Any:
        if command == "unlink":
            stored.remove(*arguments)
        return []

    async def answer(value: Any) -> Any:
        return value

    registry = SimpleNamespace(
        call=call,
        call_together=lambda *methods: answer([[], True]),
        keys=lambda pattern: answer([*stored]),
        jobs=lambda: answer({"saved": found.model_copy(update={"spec": spec, "epoch": 2})}),
        unfinished=lambda: answer([]),
        made_room=deque(["towpath:transfer:m1:large"]),
    )

    async def publish(event: Event) -> None:
        told.append(event)

    await StateStore(cast(Registry, registry), publish).look()

    assert stored == [present]
    assert [each.came_under for each in cast(list[Any], told)] == ["towpath:transfer:m1:large", unknown]
