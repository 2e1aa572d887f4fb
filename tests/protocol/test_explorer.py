"""A machine looks for courses that break an invariant: in the tables as they are, and in weakened ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from protocol_world import reconcile, trial

from towpath.contracts.commands import StrategyName
from towpath.protocols import strategies
from towpath.protocols.simulation.explorer import Explorer, Plan
from towpath.protocols.simulation.scenario import outcome, parse_scenario
from towpath.protocols.simulation.weakness import Weakness
from towpath.protocols.step import Strategy

RESTART, GENERAL = StrategyName.RESTART, StrategyName.GENERAL
PARALLEL, HANDOVER = StrategyName.PARALLEL, StrategyName.HANDOVER

MOST_MOVES = 4000
"""Of one exploration: a few seconds."""


def found(plan: Plan, *weak: Weakness, faults: int = 1) -> list[str] | None:
    """The shortest course that breaks an invariant."""
    with trial(plan[0][0], *weak) as start:
        return Explorer(plan, reconcile, faults=faults, most_moves=MOST_MOVES).find(start)


@pytest.mark.parametrize("strategy", [RESTART, GENERAL, PARALLEL, HANDOVER])
def test_migration_when_any_one_thing_goes_wrong_then_the_invariants_hold(strategy: StrategyName) -> None:
    plan = [(strategy, "cloud")]
    with trial(strategy) as start:
        explorer = Explorer(plan, reconcile, faults=1, most_moves=MOST_MOVES)
        assert explorer.find(start) is None
        assert explorer.reached_faults == 2, "every course with one fault was looked at"
