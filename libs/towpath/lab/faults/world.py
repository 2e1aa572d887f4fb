"""The names of all that exists in a mesh, and the processes of it that would look at a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.faults import AtPoint, OnTarget, Rule, RuleEvent, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.vocabulary import POINT_DESCRIPTIONS

_SERVERS = ("nats", "redis", "mosquitto")
"""Ends of the names of processes that run no Python: no rule sets their clock."""


@dataclass(frozen=True)
class World:
    """Names of all that exists in a mesh."""

    sites: frozenset[str] = frozenset()
    processes: frozenset[str] = frozenset()
    """Of all scopes, also those that are just restarting."""
    links: frozenset[str] = frozenset()
    """Sites whose link is emulated."""
    jobs: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    """Of the daemon that the injector asks, also those that do not run."""
    networks: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Container → names of the networks that it is on."""
    own_container: str | None = None
    """The one that the injector runs in, if it does."""
    without_daemon: ErrorDetail | None = None
    """Why it is not known which containers there are."""

    @property
    def scopes(self) -> list[str]:
        """The hub and the sites."""
        return [HUB_SCOPE, *sorted(self.sites)]

    def scope_of(self, process: str) -> str:
        """Return the scope of a process: those of a site begin with its name."""
        of_site = [site for site in self.sites if process.startswith(f"{site}-")]
        return max(of_site, key=len, default=HUB_SCOPE)


def runs_python(process: str) -> bool:
    """Return true if a process of this name runs Python code: a broker and the store do not."""
    return process != HUB_SCOPE and not process.endswith(_SERVERS)


def looking_processes(rule: Rule, world: World) -> list[str]:
    """Return names of the processes that would look at a rule; none for an event outside code."""
    if isinstance(rule.event, OnTarget):
        return []
    where = rule.where
    return [
        name
        for name in passing_processes(rule.event, world)
        if where.process in (None, name) and where.site in (None, world.scope_of(name))
    ]


def passing_processes(event: RuleEvent, world: World) -> list[str]:
    """Return names of the processes in which something passes the event's point."""
    end = POINT_DESCRIPTIONS[event.point].passed_in if isinstance(event, AtPoint) else ""
    return [name for name in sorted(world.processes) if runs_python(name) and name.endswith(end)]


def scope_of_target(event: OnTarget, scope_of: Callable[[str], str]) -> str | None:
    """Return the scope that a target is in. None: its name does not tell. `scope_of` is that of a process."""
    match event.target:
        case TargetKind.MACHINE:
            return event.name
        case TargetKind.PROCESS | TargetKind.DISK | TargetKind.CLOCK:
            return scope_of(event.name)
        case TargetKind.LINK | TargetKind.CONTAINER:
            return None
