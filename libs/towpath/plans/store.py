"""Durable memory of plans, as the controller needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.records import DeviceRecord, PlanRecord


class PlanStore(Protocol):
    """Keeps plans, versions and devices. Each call is atomic, and waits while the memory is out of reach.

    A record with revision n replaces that with revision n - 1, or itself. Otherwise the writer was replaced,
    and the call raises `towpath.protocols.runner.Superseded`.
    """

    async def load(self, plan: str) -> tuple[PlanRecord, dict[str, DeviceRecord]] | None:
        """Return a plan's progress and devices; None if there is no such plan."""
        ...

    async def versions(self, plan: str) -> list[PlanVersion]:
        """Return all kept versions of a plan, the oldest first."""
        ...

    async def begin(self, record: PlanRecord, version: PlanVersion, devices: Sequence[DeviceRecord]) -> None:
        """Write a new version, the progress that begins with it, and the devices that it changes, at once.

        Versions that the record does not name may be forgotten.
        """
        ...

    async def save_progress(self, record: PlanRecord) -> None:
        """Write the progress of a plan's newest version."""
        ...

    async def save_device(self, plan: str, record: DeviceRecord) -> None:
        """Write a device's record."""
        ...
