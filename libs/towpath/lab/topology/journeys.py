"""How the link of a node goes over time while it travels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Node, NodeLink


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a journey."""

    begin_s: float
    """Behind the beginning of the journey."""
    end_s: float
    link: NodeLink


def journey(node: Node, rounds: int) -> Iterator[Leg]:
    """The parts of a node's journey, one behind the other without gaps.

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
    return _legs(node, rounds)


def length_s(node: Node, rounds: int = 1) -> float:
    """How long a journey takes."""
    return rounds * sum(window.for_s for window in node.coverage)


def _legs(node: Node, rounds: int) -> Iterator[Leg]:
    begin = 0.0
    for _ in range(rounds):
        for window in node.coverage:
            end = begin + window.for_s
            yield Leg(begin, end, window.link or node.link)
            begin = end
