"""Show a roll-out under way, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping

from towpath.cli.connection import CHANGE_ATTEMPT_S, LOOK_ATTEMPT_S, LOOK_DEADLINE_S, open_bus
from towpath.cli.output import clock, print_table, progress, say
from towpath.contracts.message import Command
from towpath.contracts.plan_commands import ShowPlan
from towpath.contracts.plan_rollout import (
    DeviceState,
    DeviceView,
    RolloutState,
    RolloutView,
    VersionKind,
)
from towpath.mesh.home import Home
from towpath.plans.order import listed
from towpath.tasks import pause

LOOK_EVERY_S = 0.25

NOT_SHOWN = 40
"""Devices of one state that are listed one by one, at most."""


async def follow(home: Home, command: Command[RolloutView], *, wait: bool) -> tuple[RolloutView, bool]:
    """Send a command, and show the roll-out until it has ended, or only absent devices are missing.

    Return the newest version's progress, and True if what was asked for did not succeed.
    """
    begun = time.monotonic()
    async with open_bus(home) as bus:
        view = await bus.request(command, deadline_s=LOOK_DEADLINE_S, attempt_s=CHANGE_ATTEMPT_S)
        wanted = view.version
        if not wait:
            return view, False
        with progress(begun) as tell:
            told = ""
            while True:
                if (line := _line(view)) != told:
                    tell(told := line)
                if _is_settled(view):
                    break
                await pause(LOOK_EVERY_S)
                question = ShowPlan(plan=view.plan)
                view = await bus.request(question, deadline_s=LOOK_DEADLINE_S, attempt_s=LOOK_ATTEMPT_S)
    away = [each.device for each in view.devices if _is_away(each)]
    if away and view.state is RolloutState.RUNNING:
        say(f"{listed(away)} will catch up when they are ready: towpath plan status {view.plan}")
    return view, view.version != wanted or view.state is RolloutState.STOPPED


def _line(view: RolloutView) -> str:
    went = f" (went back to version {view.again or 0})" if view.kind is VersionKind.AUTOMATIC_ROLLBACK else ""
    note = f": {view.note}" if view.note else ""
    wave = f"wave {view.wave} of {view.waves}"
    return f"version {view.version}{went} {view.state}, {wave}, {note_of(view.counts)}{note}"


def _is_settled(view: RolloutView) -> bool:
    if view.state is not RolloutState.RUNNING:
        return True
    done = (DeviceState.RUNNING, DeviceState.FAILED, DeviceState.REMOVED)
    return view.wave == view.waves and all(each.state in done or _is_away(each) for each in view.devices)


def _is_away(device: DeviceView) -> bool:
    return device.state in (DeviceState.DEFERRED, DeviceState.QUEUED_OFFLINE)


def note_of(counts: Mapping[DeviceState, int]) -> str:
    """Return how many devices are in which state, in a few words."""
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no devices"


def _note(device: DeviceView) -> str:
    return f"since {clock(device.since)}: {device.note}" if device.since else device.note


def print_rollout(view: RolloutView) -> None:
    """Print a version's progress: a line for each device, where there are not too many alike."""
    print(_line(view))
    listed_devices = [
        each
        for each in view.devices
        if each.note or each.state is DeviceState.FAILED or view.counts[each.state] <= NOT_SHOWN
    ]
    rows = [
        (each.device, each.state, each.wave, ", ".join(each.applications) or None, _note(each) or None)
        for each in listed_devices
    ]
    if rows:
        print_table(("device", "state", "wave", "applications", "note"), rows, nothing="")
    if hidden := len(view.devices) - len(rows):
        print(f"{hidden} more device(s); --json has all")
