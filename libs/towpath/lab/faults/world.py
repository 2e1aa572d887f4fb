"""The names of all that exists in a mesh, and the processes of it that would look at a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from towpath.contracts.errors import ErrorDetail
from towpath.contracts.faults import AtPoint, OnTarget, Rule, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.vocabulary import POINT_DESCRIPTIONS
from towpath.lab.services.links import LINKS
from towpath.mesh.names import is_hub_process

_SERVERS = ("nats", "redis", "mosquitto")
"""Ends of the names of processes that run no Python beside the hub's: no rule sets their clock."""


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

    def scope_of_target(self, event: OnTarget) -> str | None:
        """Return the scope that a target is in. None: its name does not tell."""
        match event.target:
            case TargetKind.MACHINE:
                return event.name
            case TargetKind.PROCESS | TargetKind.DISK | TargetKind.CLOCK:
                return self.scope_of(event.name)
            case TargetKind.LINK | TargetKind.CONTAINER:
                return None


def runs_python(process: str) -> bool:
    """Return true if a process of this name runs Python code: a broker and the store do not."""
    return not is_hub_process(process) and not process.endswith(_SERVERS)


def looking_processes(rule: Rule, world: World) -> list[str]:
    """Return names of the processes that would look at a rule, or of what it would hit."""
    event, where = rule.event, rule.where
    if isinstance(event, AtPoint):
        return [
            name
            for name in passing_processes(event, world)
            if where.process in (None, name) and where.site in (None, world.scope_of(name))
        ]
    hit = LINKS.name if event.target is TargetKind.LINK else event.name
    there = world.containers if event.target is TargetKind.CONTAINER else world.processes
    return [hit] if hit in there else []


def passing_processes(event: AtPoint, world: World) -> list[str]:
    """Return names of the processes in which something passes the event's point."""
    end = POINT_DESCRIPTIONS[event.point].passed_in
    return [name for name in sorted(world.processes) if runs_python(name) and name.endswith(end)]


def scopes_of(rule: Rule, world: World) -> tuple[str, ...]:
    """Return the scopes whose processes carry a rule out.

    A rule about a job is for all sites: jobs move, and their rules with them.
    """
    event, where = rule.event, rule.where
    if isinstance(event, OnTarget):
        elsewhere = where.site if event.target is TargetKind.CONTAINER else None
        return (world.scope_of_target(event) or elsewhere or HUB_SCOPE,)
    if where.process is not None:
        return (world.scope_of(where.process),)
    if where.site is not None:
        return (where.site,)
    at_sites_only = POINT_DESCRIPTIONS[event.point].passed_in != ""
    sites = sorted(world.sites)
    return tuple(sites) if at_sites_only or where.job is not None else (HUB_SCOPE, *sites)
