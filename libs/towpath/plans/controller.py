"""Roll one plan out over its devices. The controller may be killed at any line; the next one goes on.

1. A version is in the store before any device is asked for it.
2. A step is in the store before it is sent, under an identifier that a second controller makes as well.
3. The outcome is in the store before anything follows from it.
4. A step without an outcome is sent again under its identifier, before any other step of that device.

Lost, repeated and late answers therefore change nothing: devices remember the outcome of identifiers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from towpath.contracts.device_commands import DeviceAnswer
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.gateway import Code
from towpath.contracts.message import new_identifier, now
from towpath.contracts.plan import DeployableOperation, Rollout, Scalar
from towpath.contracts.plan_rollout import (
    PlanHistoryEntry,
    PlanVersion,
    RolloutState,
    RolloutView,
    VersionKind,
)
from towpath.plans.devices import Devices
from towpath.plans.fleet import Fleet, advance
from towpath.plans.records import DeviceRecord, PlanRecord, Step
from towpath.plans.steps import answered, request_of
from towpath.plans.store import PlanStore
from towpath.plans.versions import configured, new_version
from towpath.plans.views import history_of, rollout_view
from towpath.tasks import end

log = logging.getLogger(__name__)

WORKING_S = 1.0
"""Pause before a device that works on a step is asked for its outcome."""

MOST_PAUSES = 64
"""Longest pause before a device that does not answer is tried again, as a multiple of `ask_again_s`.

It is tried at all because the news that it has come may be lost."""

AWAY_PART = 4
"""One in so many requests under way may be to a device that is known to be away: the others have room."""

GRACE_S = 5.0
"""Time for which an answer may come after `timeout_s`, before it counts as none."""


Announce = Callable[[RolloutView], Awaitable[None]]


async def _announce_to_no_one(_: RolloutView) -> None: ...


class PlanController:
    """Drives one plan: one object at a time may. All methods may be called while `run` runs."""

    def __init__(
        self,
        plan: str,
        store: PlanStore,
        devices: Devices,
        announce: Announce = _announce_to_no_one,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """`announce` is told of each new version, wave and end."""
        self._plan = plan
        self._store = store
        self._devices = devices
        self._announce = announce
        self._clock = clock
        self._fleet: Fleet | None = None
        self._changing = asyncio.Lock()
        self._woken = asyncio.Event()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._resting: dict[str, asyncio.TimerHandle] = {}
        self._pauses: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        """True if there is nothing to do: the newest version has ended, and each step has an outcome."""
        return self._fleet is None or _is_over(self._fleet)

    async def apply(
        self,
        operations: Sequence[DeployableOperation],
        rollout: Rollout,
        sites: Mapping[str, str],
        *,
        command: str,
        asked_by: str | None = None,
    ) -> PlanVersion:
        """Make the plan's operations those given. Return the version, which `run` rolls out.

        `sites` has the site of each device. A repeated command returns the version that it became. Raises
        `TowpathError` (not allowed) when something is configured that is not there.
        """
        async with self._changing:
            return await self._begin(
                VersionKind.APPLY, operations, rollout, command, sites, asked_by=asked_by
            )

    async def update(
        self,
        operation: str,
        arguments: Mapping[str, Scalar],
        *,
        command: str,
        asked_by: str | None = None,
    ) -> PlanVersion:
        """Change arguments of one operation, as a new version. Raises `TowpathError` (invalid)."""
        async with self._changing:
            fleet = await self._known()
            known = {each.operation: each for each in fleet.version.operations}
            if operation not in known:
                raise TowpathError(
                    ErrorCode.INVALID,
                    "the plan has no such operation",
                    field="operation",
                    value=operation,
                    allowed=[*known],
                )
            changed = known[operation].arguments | dict(arguments)
            known[operation] = known[operation].model_copy(update={"arguments": changed})
            rollout = fleet.version.rollout
            return await self._begin(
                VersionKind.APPLY, [*known.values()], rollout, command, asked_by=asked_by
            )

    async def uninstall(self, *, command: str, asked_by: str | None = None) -> PlanVersion:
        """Remove all applications of the plan from all devices, readers before what they read from.

        Raises `TowpathError` (invalid) when there is no such plan.
        """
        async with self._changing:
            fleet = await self._known()
            return await self._begin(
                VersionKind.UNINSTALL, [], fleet.version.rollout, command, asked_by=asked_by
            )

    async def rollback(
        self, version: int | None = None, *, command: str, asked_by: str | None = None
    ) -> PlanVersion:
        """Make an earlier version's operations those of the plan, as a new version.

        It is the newest that was completed, unless given. Raises `TowpathError` (invalid) when there is none.
        """
        async with self._changing:
            fleet = await self._known()
            if (again := fleet.record.commands.get(command)) is not None:
                return await self._version(again)
            earlier = {v.version: v for v in await self._store.versions(self._plan)}
            wanted = version if version is not None else fleet.record.goes_back_to
            if wanted is None or wanted not in earlier or wanted == fleet.version.version:
                allowed = [str(number) for number in earlier if number != fleet.version.version]
                raise TowpathError(
                    ErrorCode.INVALID,
                    "no version to go back to",
                    field="version",
                    value=version,
                    allowed=allowed,
                )
            to = earlier[wanted]
            return await self._begin(
                VersionKind.ROLLBACK, to.operations, to.rollout, command, again=wanted, asked_by=asked_by
            )

    async def status(self) -> RolloutView:
        """Return the newest version's progress, device by device. Raises `TowpathError` (invalid)."""
        async with self._changing:
            return rollout_view(await self._known())

    async def fleet(self) -> Fleet:
        """Return the newest version and its devices. Raises `TowpathError` (invalid) if there is none."""
        async with self._changing:
            return await self._known()

    async def history(self) -> list[PlanHistoryEntry]:
        """Return the kept versions with their outcomes, the newest first. Raises `TowpathError` (invalid)."""
        async with self._changing:
            fleet = await self._known()
            return history_of(fleet.record, await self._store.versions(self._plan))

    async def run(self) -> RolloutView:
        """Ask devices until the newest version has ended, and no outcome is unknown. Return its progress.

        It waits for devices that are away, however long they are. Raises `TowpathError` (invalid) when there
        is no such plan, and `Superseded` when another controller has taken over.
        """
        async with self._changing:
            self._fleet = None  # An earlier run may have ended between a write and what follows from it.
            await self._known()
        watching = self._started(self._watch_presence(), f"presence for plan {self._plan}")
        try:
            while True:
                self._woken.clear()
                async with self._changing:
                    fleet = await self._advance()
                    if _is_over(fleet):
                        return rollout_view(fleet)
                    await self._ask_ready(fleet)
                await self._woken.wait()
                self._raise_failures(watching)
        finally:
            for timer in self._resting.values():
                timer.cancel()
            self._resting.clear()
            await end([watching, *self._asking.values()])
            self._asking.clear()

    async def _known(self) -> Fleet:
        if self._fleet is None:
            await self._load()
        if self._fleet is None:
            raise TowpathError(ErrorCode.INVALID, "no such plan", field="plan", value=self._plan)
        return self._fleet

    async def _load(self) -> None:
        found = await self._store.load(self._plan)
        if found is not None:
            record, devices = found
            self._fleet = Fleet(await self._version(record.version), record, devices)

    async def _version(self, number: int) -> PlanVersion:
        return next(v for v in await self._store.versions(self._plan) if v.version == number)

    async def _begin(
        self,
        kind: VersionKind,
        operations: Sequence[DeployableOperation],
        rollout: Rollout,
        command: str,
        sites: Mapping[str, str] | None = None,
        again: int | None = None,
        note: str = "",
        ended: RolloutState | None = None,
        asked_by: str | None = None,
    ) -> PlanVersion:
        """Write a new version. The one before ends with it: as `ended` says, else as it had or superseded."""
        if self._fleet is None:
            await self._load()
        before = self._fleet
        record = before.record if before else PlanRecord(plan=self._plan, version=0)
        if command in record.commands:
            return await self._version(record.commands[command])
        devices = dict(before.devices) if before else {}
        number = record.version + 1
        if kind is VersionKind.APPLY:
            operations = configured(operations, before.version if before else None)
        version, fresh = new_version(
            self._plan,
            number,
            operations,
            rollout,
            devices,
            sites=sites or {},
            command=command,
            asked_by=asked_by,
            at=self._clock(),
            kind=kind,
            again=again,
        )
        next_record = record.succeeded_by(version, ended=ended, note=note)
        self._fleet = None  # If the write ends in an error, it may be done all the same.
        await self._store.begin(next_record, version, fresh)
        devices.update({each.device: each for each in fresh})
        self._fleet = Fleet(version, next_record, devices)
        self._woken.set()
        await self._announce(rollout_view(self._fleet))
        return version

    async def _advance(self) -> Fleet:
        """Open waves, end the version, or go back, as the devices' standing says."""
        fleet = await self._known()
        while (record := advance(fleet)) is not None:
            if (
                record.state is RolloutState.STOPPED
                and fleet.version.stops
                and fleet.version.rollout.roll_back
            ):
                return await self._roll_back(fleet, record)
            await self._store.save_progress(record)
            fleet = self._fleet = Fleet(fleet.version, record, fleet.devices)
            await self._announce(rollout_view(fleet))
        return fleet

    async def _roll_back(self, fleet: Fleet, stopped: PlanRecord) -> Fleet:
        """Begin the version that repeats the newest completed one, in the write that ends this one."""
        log.warning("plan %s version %d stops: %s", self._plan, fleet.version.version, stopped.note)
        again = stopped.goes_back_to
        operations = (await self._version(again)).operations if again is not None else []
        note = f"version {fleet.version.version} stopped: {stopped.note}"
        await self._begin(
            VersionKind.AUTOMATIC_ROLLBACK,
            operations,
            fleet.version.rollout,
            new_identifier(),
            again=again,
            note=note,
            ended=stopped.state,
        )
        return await self._known()

    async def _ask_ready(self, fleet: Fleet) -> None:
        """Send the next steps of as many devices as may be asked at a time. Each is saved first."""
        rollout = fleet.version.rollout
        busy = self._asking.keys() | self._resting.keys()
        away = sum(fleet.devices[device].is_away for device in self._asking)
        for device, step in fleet.ready(busy):
            if len(self._asking) >= rollout.at_once:
                break
            record = fleet.devices[device]
            if record.is_away:
                if away >= max(1, rollout.at_once // AWAY_PART):
                    break
                away += 1
            if record.pending is None:
                await self._save(record.changed(pending=step, failure=None))
            self._asking[device] = self._started(self._ask(device, step, rollout), f"{step.task} on {device}")

    def _started(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task. Its end wakes `run`, which raises its error."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._woken.set())
        return task

    async def _ask(self, device: str, step: Step, rollout: Rollout) -> None:
        """Send one step, and save the outcome."""
        answer: DeviceAnswer | None = None
        site = (await self._known()).devices[device].site
        asked_at = self._clock()
        try:
            async with asyncio.timeout(rollout.timeout_s + GRACE_S):
                answer = await self._devices.request(
                    site,
                    device,
                    request_of(step),
                    request_id=step.request_id,
                    timeout_s=rollout.timeout_s,
                )
        except (TowpathError, TimeoutError) as error:
            log.info("plan %s: no answer of %s to %s: %s", self._plan, device, step.task, error)
        async with self._changing:
            record = (await self._known()).devices[device]
            if answer is None:
                if not record.offline:
                    await self._save(record.changed(offline=True, accepted_at=None))
                self._rest_longer(device, rollout)
            else:
                self._pauses.pop(device, None)
                limit_s = rollout.step_limit_s
                changed = answered(record, step.request_id, answer, asked_at, self._clock(), limit_s)
                if changed is not record:
                    await self._save(changed)
                if changed.deferred_since is not None:
                    self._rest(device, rollout.ask_again_s)
                elif answer.code == Code.ACCEPTED:
                    self._rest(device, WORKING_S)
            if self._asking.get(device) is asyncio.current_task():
                # Only now: a task that fails stays, so that `run` raises its error.
                del self._asking[device]

    async def _save(self, record: DeviceRecord) -> None:
        """Write a device's record. The caller holds the lock."""
        await self._store.save_device(self._plan, record)
        self._fleet = (await self._known()).with_device(record)

    def _rest_longer(self, device: str, rollout: Rollout) -> None:
        pauses = self._pauses.get(device, 1)
        self._pauses[device] = min(pauses * 2, MOST_PAUSES)
        self._rest(device, rollout.ask_again_s * pauses)

    def _rest(self, device: str, seconds: float) -> None:
        self._wake(device)
        self._resting[device] = asyncio.get_running_loop().call_later(seconds, self._wake, device)

    def _wake(self, device: str) -> None:
        timer = self._resting.pop(device, None)
        if timer is not None:
            timer.cancel()
            self._woken.set()

    async def _watch_presence(self) -> None:
        """Note which devices come and go. One that comes is asked at once, one that goes is left alone."""
        async for device, online in self._devices.presence():
            async with self._changing:
                fleet = await self._known()
                record = fleet.devices.get(device)
                if record is None:
                    continue
                if record.offline is online:
                    await self._save(record.changed(offline=not online, accepted_at=None))
                if online and (record.offline or record.deferred_since is None):
                    self._pauses.pop(device, None)
                    self._wake(device)
                elif not online and device not in self._asking:
                    self._rest(device, fleet.version.rollout.ask_again_s * MOST_PAUSES)
            self._woken.set()

    def _raise_failures(self, watching: asyncio.Task[None]) -> None:
        for task in [watching, *self._asking.values()]:
            if task.done() and not task.cancelled():
                task.result()


def _is_over(fleet: Fleet) -> bool:
    """True if the version has ended, and each step that was sent has an outcome."""
    ended = fleet.record.state is not RolloutState.RUNNING
    return ended and all(record.pending is None for record in fleet.devices.values())
