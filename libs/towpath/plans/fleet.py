"""All devices of a plan while a version is rolled out. Pure: who may be asked next, and when a wave is over.

A device is *done* when it has all that the version says, *failed* when it refused a step of this version,
*away* when it is offline or deferred, and *at work* else. Waves go on without devices that are away: these
catch up when they are ready. If a whole wave is away, others are tried in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from towpath.contracts.plan import DeployableOperation
from towpath.contracts.plan_rollout import PlanVersion, RolloutState
from towpath.plans.records import DeviceRecord, PlanRecord, Step
from towpath.plans.steps import open_steps, wanted_by_device


class Standing(Enum):
    """Relation of a device, or of an application on it, to the newest version."""

    DONE = "done"
    FAILED = "failed"
    AWAY = "away"
    AT_WORK = "at work"


@dataclass(frozen=True)
class Fleet:
    """A plan's newest version, its progress, and its devices."""

    version: PlanVersion
    record: PlanRecord
    devices: Mapping[str, DeviceRecord]

    def with_device(self, record: DeviceRecord) -> Fleet:
        """Return the fleet with another record of a device."""
        fleet = replace(self, devices={**self.devices, record.device: record})
        if record.device in self.wanted:
            # The steps of other devices stay: to work them out again for each answer would be quadratic.
            own = open_steps(record, self.wanted[record.device], self.version)
            known = {"wanted": self.wanted, "begun": self.begun, "_begun_set": self._begun_set}
            vars(fleet).update(known, steps={**self.steps, record.device: own})
        return fleet

    @cached_property
    def wanted(self) -> Mapping[str, Mapping[str, DeployableOperation]]:
        """Application and operation that each device must run."""
        return wanted_by_device(self.version)

    @cached_property
    def begun(self) -> list[str]:
        """Devices that have begun: those of begun waves, the first wave first, and those brought forward."""
        waves = self.version.waves[: self.record.wave + 1]
        return [*dict.fromkeys([device for wave in waves for device in wave] + self.record.brought_forward)]

    def substitutes(self) -> list[str]:
        """Return devices of later waves that can be reached, as many as the newest wave has."""
        later = (device for wave in self.version.waves[self.record.wave + 1 :] for device in wave)
        free = [d for d in later if d not in self._begun_set and not self.devices[d].is_away]
        return free[: len(self.version.waves[self.record.wave])]

    @cached_property
    def steps(self) -> Mapping[str, list[Step]]:
        """Open steps of each device, one for each application that is not as it must be."""
        return {
            device: open_steps(self.devices[device], self.wanted[device], self.version)
            for wave in self.version.waves
            for device in wave
        }

    def standing(self, device: str) -> Standing:
        """Return the standing of a device."""
        record = self.devices[device]
        if self._has_failed(record):
            return Standing.FAILED
        if not self.steps[device] and record.pending is None:
            return Standing.DONE
        return Standing.AWAY if record.is_away else Standing.AT_WORK

    def ready(self, busy: Collection[str]) -> Iterator[tuple[str, Step]]:
        """Yield devices that are not busy, each with its next step. Those known to be away come last.

        A pending step is repeated whatever happens to the version: its outcome must be known.
        """
        found = [
            (device, step)
            for device in self._by_wave()
            if device not in busy and (step := self._next_step(device)) is not None
        ]
        yield from sorted(found, key=lambda each: self.devices[each[0]].is_away)

    def _by_wave(self) -> Iterator[str]:
        for wave in self.version.waves:
            yield from wave

    def _next_step(self, device: str) -> Step | None:
        record = self.devices[device]
        if record.pending is not None:
            return record.pending
        running = self.record.state is RolloutState.RUNNING
        if not running or self._has_failed(record) or device not in self._begun_set:
            return None
        return next((step for step in self.steps[device] if self._may_begin(device, step)), None)

    @cached_property
    def _begun_set(self) -> frozenset[str]:
        return frozenset(self.begun)

    def _has_failed(self, record: DeviceRecord) -> bool:
        return record.failure is not None and record.failure.version == self.version.version

    def _may_begin(self, device: str, step: Step) -> bool:
        """True if all that must come before the step has come, as far as it can."""
        operation = self.wanted[device].get(step.application)
        if operation is None:
            return step.order >= self._highest_leaving
        return all(first in self._running_operations for first in operation.after)

    @cached_property
    def _highest_leaving(self) -> int:
        """Highest order number of applications that leave devices at work."""
        leaving = (
            step.order
            for device in self.begun
            if self.standing(device) is Standing.AT_WORK
            for step in self.steps[device]
            if step.application not in self.wanted[device]
        )
        return max(leaving, default=0)

    @cached_property
    def _running_operations(self) -> frozenset[str]:
        """Operations that run on one device at least, and that no device is still working on."""
        return frozenset(
            operation.operation
            for operation in self.version.operations
            if self._runs(operation) and not self._is_worked_on(operation)
        )

    def _runs(self, operation: DeployableOperation) -> bool:
        return not operation.devices or any(
            self._has_it(device, operation.application) for device in operation.devices
        )

    def _is_worked_on(self, operation: DeployableOperation) -> bool:
        return any(
            device in self._begun_set
            and self.standing(device) is Standing.AT_WORK
            and not self._has_it(device, operation.application)
            for device in operation.devices
        )

    def _has_it(self, device: str, application: str) -> bool:
        pending = self.devices[device].pending
        if pending is not None and pending.application == application:
            return False
        return all(step.application != application for step in self.steps[device])


def advance(fleet: Fleet) -> PlanRecord | None:
    """Return the progress that follows from the devices' standing: next wave, end or stop. None: the same."""
    record = fleet.record
    if record.state is not RolloutState.RUNNING:
        return None
    by = {standing: 0 for standing in Standing}
    for device in fleet.begun:
        by[fleet.standing(device)] += 1
    done, failed, away = by[Standing.DONE], by[Standing.FAILED], by[Standing.AWAY]
    if reason := _stops(fleet, failed):
        return record.changed(state=RolloutState.STOPPED, note=reason)
    is_last = record.wave == len(fleet.version.waves) - 1
    if is_last and done + failed == len(fleet.begun):
        note = f"{failed} device(s) failed: {_first_failure(fleet)}" if failed else record.note
        return record.changed(state=RolloutState.COMPLETED, note=note)
    reachable = len(fleet.begun) - away
    if not is_last and done and done >= fleet.version.rollout.success * reachable:
        return record.changed(wave=record.wave + 1)
    all_away = not reachable and not is_last
    if all_away and (substitutes := fleet.substitutes()):
        # Else a first wave that is away would hold all others.
        return record.changed(brought_forward=[*record.brought_forward, *substitutes])
    if not all_away and next(fleet.ready(()), None) is None:
        # Also a device that is away could do nothing if it came.
        return record.changed(state=RolloutState.STOPPED, note=_stuck(fleet, done, reachable))
    return None


def _stops(fleet: Fleet, failed: int) -> str:
    """Return the reason for which failures stop the version; nothing if they do not."""
    if not failed or not fleet.version.stops:
        return ""
    stop, begun = fleet.version.rollout.stop, len(fleet.begun)
    if stop.number is not None and failed > stop.number:
        return f"{failed} device(s) failed, at most {stop.number} may: {_first_failure(fleet)}"
    if failed > stop.share * begun:
        return f"{failed} of {begun} devices failed, at most {stop.share:.0%} may: {_first_failure(fleet)}"
    return ""


def _first_failure(fleet: Fleet) -> str:
    failed = next(device for device in fleet.begun if fleet.standing(device) is Standing.FAILED)
    failure = fleet.devices[failed].failure
    return f"{failed}: {failure.code} {failure.message}" if failure else failed


def _stuck(fleet: Fleet, done: int, reachable: int) -> str:
    if fleet.record.wave < len(fleet.version.waves) - 1 and done < fleet.version.rollout.success * reachable:
        return (
            f"{done} of {reachable} devices are done; the next wave needs {fleet.version.rollout.success:.0%}"
        )
    return "the operations that others need run nowhere"
