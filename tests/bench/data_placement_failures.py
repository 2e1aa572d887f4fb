"""Stability-driven replication in simulation: nodes that fail at Zipf rates, and copies that outlive them.

RAINBOW's evaluation (D4.2, FR.DSS.3): 5000 iterations, 50 nodes, three of which fail at 0.27 % to 0.86 % of
the iterations and the others at about 0.01 %. It does not say how long an iteration is, and of 47 nodes at
0.01 % it reports five failures, where 23 are to be expected. So there is a reading for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from figures import Case, Value
from numpy.typing import NDArray

from towpath.placement.data.node_history import DAY_S, NodeHistory, instability_per_s
from towpath.placement.data.replication import (
    AUTHORS_RULES,
    ROUND_S,
    Node,
    ReplicationRules,
    ended_replications,
    is_unstable,
    replications,
)

STEPS, NODES = 5000, 50
WEAK = (0.0086, 0.0048, 0.0027)
"""Failures of an iteration of the three. The source has the first and the last; the second lies between."""


@dataclass(frozen=True)
class Reading:
    """One reading of the evaluation."""

    name: str
    step_s: float
    others: float
    """Failures of an iteration of each other node."""
    steps_per_round: int = 1
    rules: ReplicationRules = AUTHORS_RULES


READINGS = (
    Reading("1 s, others as printed", 1.0, 0.0001, steps_per_round=60),
    Reading("1 s, 5 others fail", 1.0, 5 / (47 * STEPS), steps_per_round=60),
    Reading("a round, authors' U", ROUND_S, 0.0001),
    Reading("a round, U ≥ 1/day", ROUND_S, 0.0001, rules=ReplicationRules(unstable_from_per_s=1 / DAY_S)),
)


class Cluster:
    """Fifty nodes, the first three of which fail often. A node that fails is back after one step."""

    def __init__(self, reading: Reading, names: Sequence[int]) -> None:
        self.reading = reading
        # Equally stable nodes are taken by name, so the three must have any names.
        self.nodes = [Node(f"n{name:02}", NodeHistory(-reading.step_s)) for name in names]
        self.copies = 0
        self.failures = np.zeros(NODES, int)
        self.outlived = np.zeros(NODES, int)
        """Failures at which another node that was up had a complete copy."""

    def run(self, failing: NDArray[np.bool_]) -> None:
        """Play all steps; a row of `failing` says which nodes fail in a step."""
        down: Sequence[int] = ()
        for step, row in enumerate(failing):
            now_s = step * self.reading.step_s
            for number in down:
                self._record(number, restart_s=now_s)
            down = np.flatnonzero(row).tolist()
            for number in down:
                self._fail(number, {self.nodes[other].name for other in down}, now_s)
            if step % self.reading.steps_per_round == 0:
                up = [node for number, node in enumerate(self.nodes) if number not in down]
                self._round(up, now_s)

    def _fail(self, number: int, down: set[str], now_s: float) -> None:
        self.failures[number] += 1
        self.outlived[number] += bool(self.nodes[number].copies_at - down)
        self._record(number, failure_s=now_s)

    def _record(self, number: int, failure_s: float | None = None, restart_s: float | None = None) -> None:
        node = self.nodes[number]
        failures_s = node.history.failures_s + (() if failure_s is None else (failure_s,))
        restarts_s = node.history.restarts_s + (() if restart_s is None else (restart_s,))
        history = NodeHistory(node.history.start_s, failures_s, restarts_s)
        self.nodes[number] = replace(node, history=history)

    def _round(self, up: Sequence[Node], now_s: float) -> None:
        """End copies, then begin copies, as a head does."""
        rules = self.reading.rules
        known = {node.name: node for node in self.nodes}
        known |= {
            node.name: replace(node, unstable_at_s=now_s) for node in up if is_unstable(node, now_s, rules)
        }
        for ended in ended_replications(up, now_s, rules):
            owner = known[ended.owner]
            known[ended.owner] = replace(owner, copies_at=owner.copies_at - {ended.destination})
        for begun in replications([known[node.name] for node in up], now_s, rules):
            owner = known[begun.owner]
            copies_at = owner.copies_at | {begun.destination}
            known[begun.owner] = replace(owner, copies_at=copies_at, chosen_at_s=now_s)
            self.copies += 1
        self.nodes = list(known.values())


def failure_case(reading: Reading, runs: int) -> Case:
    """Return means over some runs."""
    chance = np.random.default_rng(0)
    rates = np.array([*WEAK, *[reading.others] * (NODES - len(WEAK))])
    clusters: list[Cluster] = []
    for _ in range(runs):
        clusters.append(Cluster(reading, chance.permutation(NODES).tolist()))
        clusters[-1].run(chance.random((STEPS, NODES)) < rates)
    return Case(reading.name, _figures(clusters, STEPS * reading.step_s))


def _figures(clusters: Sequence[Cluster], now_s: float) -> dict[str, Value]:
    weak, others = slice(0, len(WEAK)), slice(len(WEAK), None)
    failures = np.array([cluster.failures for cluster in clusters])
    outlived = np.array([cluster.outlived for cluster in clusters])
    per_s = np.array(
        [[instability_per_s(node.history, now_s) for node in cluster.nodes] for cluster in clusters]
    )
    highest = np.argsort(-per_s, axis=1)[:, weak]
    usual_weak, usual_other = np.median(per_s[:, weak]), np.median(per_s[:, others].max(axis=1))
    return {
        "failures of the three": _mean(failures[:, weak].sum(axis=1)),
        "others that failed": _mean((failures[:, others] > 0).sum(axis=1)),
        "… reported: others that failed": 5,
        "the three in the highest three U, %": _mean(100 * (highest < len(WEAK)).mean(axis=1)),
        "U of the three / largest of the others": round(float(usual_weak / usual_other)),
        "copies begun": _mean(np.array([cluster.copies for cluster in clusters])),
        "failures of the three that a copy outlives, %": _share(outlived[:, weak], failures[:, weak]),
        "failures of others that a copy outlives, %": _share(outlived[:, others], failures[:, others]),
    }


def _mean(numbers: NDArray[np.int64] | NDArray[np.float64]) -> float:
    return round(float(numbers.mean()), 1)


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> float:
    return round(100 * float(part.sum() / max(whole.sum(), 1)), 1)
