"""The watch over the state store: what it deletes, and what it tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator_trial import entry, job

from towpath.checkpoints.transfer_keys import transfer_key
from towpath.contracts.job import Standby
from towpath.contracts.message import Event
from towpath.contracts.standby import standby_operation
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.state_store import StateStore


async def test_look_when_a_job_has_failed_over_then_deletes_its_old_copy_without_an_alarm() -> None:
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
    )

    async def publish(event: Event) -> None:
        told.append(event)

    await StateStore(cast(Registry, registry), publish).look()

    assert stored == [present]
    assert [unknown in event.model_dump_json() for event in told] == [True]
