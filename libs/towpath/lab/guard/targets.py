"""Targets of rules: processes by their pid files, a scope's machine, containers by name."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import LoadedRule, OnTarget, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.registry import Target
from towpath.lab.guard.held_record import Held
from towpath.lab.guard.machine import Machine
from towpath.lab.guard.process import is_guard
from towpath.mesh.home import Home
from towpath.mesh.names import is_engine_process
from towpath.processes import find

GUARDED = frozenset({TargetKind.PROCESS, TargetKind.MACHINE, TargetKind.DISK, TargetKind.CONTAINER})
"""Targets that a guard takes care of. Links are their service's, and each process sets its own clock."""

BY_PROCESS = frozenset({TargetKind.PROCESS, TargetKind.DISK})
"""Targets that are named by a process."""


def is_guarded(loaded: LoadedRule, scope: str) -> bool:
    """Return true if the guard of a scope carries the rule out."""
    event, site = loaded.rule.event, loaded.rule.where.site
    return isinstance(event, OnTarget) and event.target in GUARDED and site in (None, scope)


def target_of(home: Home, event: OnTarget) -> Target:
    """Return what a rule names. Raises `TowpathError` when it is a guard, which would not release itself."""
    if event.target not in BY_PROCESS:
        scope = event.name if event.target is TargetKind.MACHINE else HUB_SCOPE
        target = Target(event.target, event.name, processes=list, directory=str(_data(home, scope)))
        if event.target is TargetKind.MACHINE:
            machine = Machine(home, scope)
            target.processes = machine.processes
            target.cut_power = lambda lose_disks: machine.cut_power(lose_disks=lose_disks)
            target.let_start = machine.let_start
        return target
    if is_guard(event.name):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "a guard ends what rules have done, and is no target of theirs",
            field="event.name",
            value=event.name,
            allowed="any other process",
        )
    directory = _data(home, home.scope_of(event.name))
    return Target(
        event.target,
        event.name,
        processes=lambda: family(home.run, event.name),
        restart=lambda: _terminate(home.run, event.name),
        directory=str(directory),
    )


def family(run: Path, name: str) -> list[psutil.Process]:
    """Return the process called `name`, first, and its family: an engine is a JVM and workers, too.
    The children of others, such as an agent, are processes of their own. Empty when it does not run."""
    record = find(run, name)
    leader = record.process if record is not None else None
    if leader is None:
        return []
    return [leader, *(descendants(leader) if is_engine_process(name) else [])]


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return the children of a process, and theirs."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def for_release(target: Target, held: Held) -> Target:
    """Return the target as far as something was done to it: its current and its earlier processes."""

    def processes() -> list[psutil.Process]:
        found = target.processes()
        for process in before:
            found += [process, *(descendants(process) if is_engine_process(target.name) else [])]
        return list(dict.fromkeys(found))

    before = [process for each in held.processes if (process := each.process) is not None]
    return replace(target, processes=processes, remembered=held.remembered)


def _terminate(run: Path, name: str) -> None:
    for process in family(run, name)[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()


def _data(home: Home, scope: str) -> Path:
    """Return where a scope keeps its data."""
    return home.hub if scope == HUB_SCOPE else home.site(scope)
