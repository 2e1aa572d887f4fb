"""When nodes fail by chance and return: alternating times up and away, as often as their stability says."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from towpath.contracts.topology import Node

SHORTEST_OUTAGE_S = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """A node is away."""

    node: str
    begin_s: float
    """Behind the beginning."""
    for_s: float


def outages(node: Node, within_s: float, seed: object) -> list[Outage]:
    """The outages of a node that begin within so long; the same for the same seed.

    Times up and times away are exponentially distributed; their means relate so that the node is up for
    the share of time that its `stability` says, an outage lasting `outage_s` on average. That is so for a
    node that is up as soon as it is started; see `postponed_s` for others.
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
    """By how much later all further outages of a node begin when it was up only so long after its start.

    It is up for longer, too: by as much as keeps the share of time that its stability says.
    """
    if node.stability is None or node.stability >= 1:
        return 0.0
    return late_s / (1 - node.stability)
