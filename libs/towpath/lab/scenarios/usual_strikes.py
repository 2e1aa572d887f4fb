"""Strikes that drills and soaks make: one function for each kind of failure."""

from __future__ import annotations

from towpath.contracts.faults import TargetKind
from towpath.contracts.scenario_strikes import Strike

AHEAD_S = 3600


def kill(process: str) -> Strike:
    """SIGKILL to a process alone, as the kernel does when memory is short."""
    return Strike(target=TargetKind.PROCESS, name=process, fault="kill", parameters={"alone": True})


def pause(process: str, for_s: float) -> Strike:
    """SIGSTOP to a process, then SIGCONT."""
    return Strike(target=TargetKind.PROCESS, name=process, fault="pause", for_s=for_s)


def clock_jump(process: str, for_s: float) -> Strike:
    """Set the clock of a process an hour ahead."""
    parameters = {"seconds": AHEAD_S}
    return Strike(
        target=TargetKind.PROCESS, name=process, fault="clock_jump", for_s=for_s, parameters=parameters
    )


def disk_full(process: str, for_s: float) -> Strike:
    """Let a process write no file."""
    return Strike(target=TargetKind.DISK, name=process, fault="disk_full", for_s=for_s)


def cut(site: str, for_s: float, only: str = "") -> Strike:
    """Cut the link of a site, or one way of it: `to_hub`, `to_site` or `from_redis`."""
    parameters = {"only": only} if only else {}
    return Strike(target=TargetKind.LINK, name=site, fault="cut", for_s=for_s, parameters=parameters)


def pause_machine(machine: str, for_s: float) -> Strike:
    """SIGSTOP to all processes of a machine, then SIGCONT."""
    return Strike(target=TargetKind.MACHINE, name=machine, fault="pause", for_s=for_s)


def power(machine: str, *, lose_disks: bool = False) -> Strike:
    """End all processes of a machine at once, and let them start again, with or without their files."""
    parameters = {"lose_disks": True} if lose_disks else {}
    return Strike(target=TargetKind.MACHINE, name=machine, fault="power", parameters=parameters)
