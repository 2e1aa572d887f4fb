"""Progress of plans as users see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from towpath.contracts.plan_rollout import (
    DeviceState,
    DeviceView,
    PlanHistoryEntry,
    PlanVersion,
    RolloutView,
)
from towpath.plans.fleet import Fleet, Standing
from towpath.plans.records import DeviceRecord, PlanRecord


def rollout_view(fleet: Fleet) -> RolloutView:
    """Return the newest version's progress, device by device."""
    views = [
        _device_view(fleet, device, position + 1)
        for position, wave in enumerate(fleet.version.waves)
        for device in wave
    ]
    counted = Counter(view.state for view in views)
    return RolloutView(
        plan=fleet.version.plan,
        version=fleet.version.version,
        kind=fleet.version.kind,
        again=fleet.version.again,
        state=fleet.record.state,
        wave=fleet.record.wave + 1,
        waves=len(fleet.version.waves),
        counts={state: counted[state] for state in DeviceState},
        devices=views,
        note=fleet.record.note,
    )


def history_of(record: PlanRecord, versions: Sequence[PlanVersion]) -> list[PlanHistoryEntry]:
    """Return the versions with their outcomes, the newest first."""
    outcomes = {**record.outcomes, record.version: record.state}
    return [
        PlanHistoryEntry(
            version=version.version,
            kind=version.kind,
            again=version.again,
            at=version.at,
            asked_by=version.asked_by,
            state=outcomes[version.version],
            operations=[operation.operation for operation in version.operations],
            devices=sum(map(len, version.waves)),
        )
        for version in reversed(versions)
    ]


def _device_view(fleet: Fleet, device: str, wave: int) -> DeviceView:
    record = fleet.devices[device]
    state = _state(fleet, record)
    done = fleet.standing(device) is Standing.DONE
    return DeviceView(
        device=device,
        state=state,
        wave=wave,
        version=fleet.version.version if done else None,
        wanted={app: o.operation for app, o in fleet.wanted[device].items() if o.package is not None},
        applications={app: there.operation for app, there in record.applications.items()},
        since=record.deferred_since if state is DeviceState.DEFERRED else None,
        note=_note(record, state),
    )


def _state(fleet: Fleet, record: DeviceRecord) -> DeviceState:
    standing = fleet.standing(record.device)
    if standing is Standing.FAILED:
        return DeviceState.FAILED
    if standing is Standing.DONE:
        return DeviceState.RUNNING if fleet.wanted[record.device] else DeviceState.REMOVED
    if record.offline:
        return DeviceState.QUEUED_OFFLINE
    if record.deferred_since is not None:
        return DeviceState.DEFERRED
    begun = record.pending is not None or _has_begun(fleet, record)
    return DeviceState.INSTALLING if begun else DeviceState.PENDING


def _has_begun(fleet: Fleet, record: DeviceRecord) -> bool:
    """True if a device that waits for others has a part of what it must have already."""
    wanted = fleet.wanted[record.device]
    open_now = {step.application for step in fleet.steps[record.device]}
    return bool(wanted.keys() - open_now) and record.device in fleet.begun


def _note(record: DeviceRecord, state: DeviceState) -> str:
    if state is DeviceState.FAILED and record.failure is not None:
        failure = record.failure
        return f"{failure.task} of {failure.operation}: {failure.code} {failure.message}"
    if state is DeviceState.DEFERRED and record.pending is not None:
        if record.not_now:
            return "the device asks to be asked later"
        return f"{record.pending.task} of {record.pending.operation} takes longer than `step_limit_s`"
    return "no answer; it catches up when it comes" if record.offline else ""
