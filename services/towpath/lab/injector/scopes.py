"""Where a rule is carried out: by the processes of which sites, or of the hub."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.faults import OnTarget, Rule, TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.vocabulary import POINT_DESCRIPTIONS
from towpath.lab.faults.world import scope_of_target
from towpath.mesh.home import Home


def scopes_of(rule: Rule, sites: Sequence[str], home: Home) -> tuple[str, ...]:
    """Return the scopes that must have a rule.

    A rule about a job is for all sites: jobs move, and their rules with them.
    """
    event, where = rule.event, rule.where
    if isinstance(event, OnTarget):
        elsewhere = where.site if event.target is TargetKind.CONTAINER else None
        return (scope_of_target(event, home.scope_of) or elsewhere or HUB_SCOPE,)
    if where.process is not None:
        return (home.scope_of(where.process),)
    if where.site is not None:
        return (where.site,)
    at_sites_only = POINT_DESCRIPTIONS[event.point].passed_in != ""
    if at_sites_only or where.job is not None:
        return tuple(sites)
    return (HUB_SCOPE, *sites)
