"""Nodes of an emulated topology, and what they took, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from towpath.contracts.links import LinkConditions
from towpath.contracts.topology import BYTES_PER_MBIT

if TYPE_CHECKING:
    from towpath.lab.emulation.status import NodeStatus
    from towpath.lab.scenarios.report import RunReport

NODE_COLUMNS = ("node", "site", "cores of this machine", "busy", "memory", "link", "jobs")
ENERGY_COLUMNS = ("node", "energy", "mean power", "busy", "up")

Row = tuple[object, ...]


def node_rows(nodes: Iterable[NodeStatus]) -> Iterator[Row]:
    """A row for each node."""
    for node in nodes:
        state = node.site if node.running else "spare" if node.spare else "away"
        busy = None if node.busy_percent is None else f"{node.busy_percent:.0f} %"
        memory = None if node.memory_mb is None else f"{node.memory_mb} MB"
        cpus = "all" if node.cpus is None else f"{node.cpus:g}"
        yield node.node, state, cpus, busy, memory, link_text(node.link), ", ".join(node.jobs) or None


def link_text(link: LinkConditions | None) -> str | None:
    """How a link is, in a few words."""
    if link is None or link.perfect:
        return None if link is None else "perfect"
    if link.cut:
        return "cut"
    parts = [f"{link.delay_ms:g} ms" + (f" ± {link.jitter_ms:g}" if link.jitter_ms else "")]
    if link.bandwidth_bytes_per_s is not None:
        parts.append(f"{link.bandwidth_bytes_per_s / BYTES_PER_MBIT:g} Mbit/s")
    if link.loss_percent:
        parts.append(f"{link.loss_percent:g} % lost")
    return ", ".join(parts)


def energy_rows(report: RunReport) -> Iterator[Row]:
    """A row for each node with a power profile, and their sum."""
    for name, node in report.energy.items():
        busy = f"{100 * node.utilisation:.0f} %"
        yield name, f"{node.energy_j:.0f} J", f"{node.mean_w:.1f} W", busy, f"{node.up_s:.0f} s"
    if report.energy:
        yield "together", f"{report.energy_j:.0f} J", None, None, None
