"""A store of plans in memory, which keeps its promises as long as the object lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.records import DeviceRecord, PlanRecord
from towpath.protocols.runner import Superseded


@dataclass
class MemoryPlanStore:
    """Keeps texts, as a server would. Crashes come from `around`."""

    plans: dict[str, str] = field(default_factory=dict)
    devices: dict[tuple[str, str], str] = field(default_factory=dict)
    known_versions: dict[tuple[str, int], str] = field(default_factory=dict)
    around: Callable[[str], None] = lambda moment: None
    """Called before and after each write; may raise to crash the controller there."""

    async def load(self, plan: str) -> tuple[PlanRecord, dict[str, DeviceRecord]] | None:
        if plan not in self.plans:
            return None
        devices = {
            device: DeviceRecord.model_validate_json(text)
            for (owner, device), text in self.devices.items()
            if owner == plan
        }
        return PlanRecord.model_validate_json(self.plans[plan]), devices

    async def versions(self, plan: str) -> list[PlanVersion]:
        return [
            PlanVersion.model_validate_json(text)
            for (owner, _), text in sorted(self.known_versions.items())
            if owner == plan
        ]

    async def begin(self, record: PlanRecord, version: PlanVersion, devices: Sequence[DeviceRecord]) -> None:
        self.around("before begin")
        self._write_plan(record)
        self.known_versions[record.plan, version.version] = version.model_dump_json()
        for device in devices:
            self._write_device(record.plan, device)
        for plan, number in [*self.known_versions]:
            if plan == record.plan and number not in {*record.outcomes, record.version}:
                del self.known_versions[plan, number]
        self.around("after begin")

    async def save_progress(self, record: PlanRecord) -> None:
        self.around("before progress")
        self._write_plan(record)
        self.around("after progress")

    async def save_device(self, plan: str, record: DeviceRecord) -> None:
        self.around(f"before {record.device}")
        self._write_device(plan, record)
        self.around(f"after {record.device}")

    def _write_plan(self, record: PlanRecord) -> None:
        old = self.plans.get(record.plan)
        stored = PlanRecord.model_validate_json(old).revision if old else None
        self.plans[record.plan] = _next(old, stored, record)

    def _write_device(self, plan: str, record: DeviceRecord) -> None:
        old = self.devices.get((plan, record.device))
        stored = DeviceRecord.model_validate_json(old).revision if old else None
        self.devices[plan, record.device] = _next(old, stored, record)


def _next(old: str | None, stored: int | None, record: PlanRecord | DeviceRecord) -> str:
    text = record.model_dump_json()
    if stored is not None and stored != record.revision - 1 and text != old:
        raise Superseded(text)
    return text
