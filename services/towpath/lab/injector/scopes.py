"""Where a rule is carried out: by the processes of which sites, or of the hub."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.faults import AtPoint, DataPoint, OnTarget, Rule, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.mesh.home import Home

AT_HUB_TOO = frozenset({DataPoint.BUS_SEND, DataPoint.BUS_RECEIVE})
"""All other points of the data path are in processes of sites."""


def scopes_of(rule: Rule, sites: Sequence[str], home: Home) -> tuple[str, ...]:
    """The scopes that must have a rule.

    A rule about a job is for all sites: jobs move, and their rules with them.
    """
    event, where = rule.event, rule.where
    if isinstance(event, OnTarget):
        return (_scope_of_target(event, where.site, home),)
    if where.process is not None:
        return (home.scope_of(where.process),)
    if where.site is not None:
        return (where.site,)
    at_sites_only = isinstance(event, AtPoint) and event.point not in AT_HUB_TOO
    if at_sites_only or where.job is not None:
        return tuple(sites)
    return (HUB_SCOPE, *sites)


def _scope_of_target(event: OnTarget, site: str | None, home: Home) -> str:
    match event.target:
        case TargetKind.MACHINE:
            return event.name
        case TargetKind.LINK:
            return HUB_SCOPE
        case TargetKind.CONTAINER:
            return site or HUB_SCOPE
        case TargetKind.PROCESS | TargetKind.DISK | TargetKind.CLOCK:
            return home.scope_of(event.name)
