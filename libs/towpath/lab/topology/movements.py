"""The times of nodes: when they fail by chance and return, and how their links change on a journey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Node, NodeLink

SHORTEST_OUTAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """A node is away."""

    node: str
    begin_s: float
    """Seconds after the beginning."""
    for_s: float


def outages(node: Node, within_s: float, seed: object) -> list[Outage]:
    """Return the outages of a node that begin within a time. They are the same for the same seed.

    Times up and times away are exponentially distributed. An outage lasts `outage_s` on average, and the
    node is up for the share of time that its `stability` says. That holds for a node that is up as soon as
    it is started; see `postponed_s` for others.
    """
    if node.stability is None or node.stability >= 1:
        return []
    chance = Random(f"{seed} {node.name} outages")
    up_s = node.outage_s * node.stability / (1 - node.stability)
    found: list[Outage] = []
    now = chance.expovariate(1 / up_s)
    while now < within_s:
        away = max(SHORTEST_OUTAGE_S, chance.expovariate(1 / node.outage_s))
        found.append(Outage(node.name, round(now, 3), round(away, 3)))
        now += away + chance.expovariate(1 / up_s)
    return found


def postponed_s(node: Node, late_s: float) -> float:
    """Return the delay of all further outages of a node that was up only `late_s` after its start.

    It stays up longer by as much as keeps the share of time that its stability says.
    """
    if node.stability is None or node.stability >= 1:
        return 0.0
    return late_s / (1 - node.stability)


def journey(node: Node, rounds: int) -> Iterator[tuple[float, NodeLink]]:
    """Return the parts of a node's journey, without gaps: the second when each ends, and its link.

    Raises `TowpathError` for a node that has no coverage over time.
    """
    if not node.coverage:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"node {node.name} does not move",
            field="coverage",
            value=[],
            allowed="in the topology, the windows of its journey",
        )
    links = [window.link or node.link for window in node.coverage] * rounds
    return zip(accumulate([window.for_s for window in node.coverage] * rounds), links, strict=True)
