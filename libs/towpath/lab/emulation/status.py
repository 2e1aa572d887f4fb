"""The status of a topology's nodes: their shares, their sites, and their links."""

from __future__ import annotations

import asyncio

from towpath.contracts.links import LinkConditions, LinkView, ListLinks
from towpath.contracts.message import Model
from towpath.contracts.site import SiteState
from towpath.lab.emulation.emulation import ASK_S, ATTEMPT_S, Emulation

RATE_S = 1.0
"""Seconds over which the use of a node is measured."""


class NodeStatus(Model):
    """A node as it is now."""

    node: str
    running: bool
    """True if its container runs."""
    site: SiteState | None
    """As the coordinator sees it. None while that does not answer."""
    spare: bool
    cpus: float | None
    """Its share of this machine's processor. None: all of it."""
    memory_mb: int | None
    busy_percent: float | None
    """Percent of its share, over a second. None while it does not run."""
    link: LinkConditions | None
    """None while the links do not answer."""
    jobs: list[str] = []


async def node_statuses(running: Emulation) -> list[NodeStatus]:
    """Return all nodes, in the order of the topology. Raises `DaemonError`."""
    names = running.nodes.names
    before = [await running.nodes.cpu_s(name) for name in names]
    await asyncio.sleep(RATE_S)
    after = [await running.nodes.cpu_s(name) for name in names]
    taken = dict(zip(names, zip(before, after, strict=True), strict=True))
    sites = {site.site: site for site in await running.sites()}
    links = {view.site: view.conditions for view in await _links(running)}
    found: list[NodeStatus] = []
    for node in running.topology.nodes:
        limits = await running.nodes.limits(node.name)
        told = sites.get(node.name)
        found.append(
            NodeStatus(
                node=node.name,
                running=taken[node.name][1] is not None,
                site=told.state if told else None,
                spare=node.spare,
                cpus=None if (limits.cpus or running.host.cores) >= running.host.cores else limits.cpus,
                memory_mb=limits.memory_mb,
                busy_percent=_busy(*taken[node.name], limits.cpus or running.host.cores),
                link=links.get(node.name),
                jobs=[job.job for job in told.jobs] if told and told.state is not SiteState.DOWN else [],
            )
        )
    return found


def _busy(before: float | None, after: float | None, cpus: float) -> float | None:
    if before is None or after is None or after < before:
        return None
    return round(100 * (after - before) / (RATE_S * cpus), 1)


async def _links(running: Emulation) -> list[LinkView]:
    return (await running.bus.request(ListLinks(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)).links
