"""Search for courses that break an invariant, in the tables as they are and in weakened ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from protocol_world import reconcile, trial

from simulation.explorer import Explorer, Plan
from simulation.scenario import outcome, parse_scenario
from simulation.weakness import Weakness
from towpath.contracts.commands import StrategyName
from towpath.protocols import table
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.step import Step

RESTART, GENERAL = StrategyName.RESTART, StrategyName.GENERAL
PARALLEL, HANDOVER, TWIN = StrategyName.PARALLEL, StrategyName.HANDOVER, StrategyName.TWIN

ALL = 10_000
"""More moves than all courses with one fault need."""

SAMPLE = 5_000
"""Moves to try with two faults, two seconds' worth: there are millions of such courses."""

THERE_AND_BACK: list[Plan] = [
    (RESTART, RESTART), (GENERAL, GENERAL), (PARALLEL, PARALLEL), (HANDOVER, HANDOVER), (HANDOVER, GENERAL),
    (TWIN, TWIN), (TWIN, HANDOVER),
]  # fmt: skip


def named(plan: Plan) -> str:
    return "-".join(plan)


def search(
    plan: Plan, *weak: Weakness, faults: int = 1, most: int = ALL
) -> tuple[Explorer, list[str] | None]:
    with trial(plan[0], *weak) as start:
        explorer = Explorer(plan, reconcile, faults=faults, most_moves=most, sampled=faults > 1)
        return explorer, explorer.find(start)


@pytest.mark.parametrize("plan", THERE_AND_BACK, ids=named)
def test_migrations_when_any_one_thing_goes_wrong_then_the_invariants_hold(plan: Plan) -> None:
    explorer, found = search(plan)
    assert found is None, "\n".join(found)
    assert explorer.reached_faults == 2, "not every course with one fault was looked at"
    assert explorer.ends[1] > 100


@pytest.mark.parametrize("plan", [(PARALLEL, PARALLEL), (HANDOVER, HANDOVER), (TWIN, TWIN)], ids=named)
def test_migrations_when_two_things_go_wrong_then_the_invariants_hold(plan: Plan) -> None:
    explorer, found = search(plan, faults=2, most=SAMPLE)
    assert found is None, "\n".join(found)
    assert explorer.ends[2] > 20, "hardly any course with two faults was followed to its end"


@pytest.mark.parametrize(
    ("strategy", "weak"),
    [
        (HANDOVER, Weakness.SETTLE_BY_MEMORY),
        (PARALLEL, Weakness.FORWARD_BY_MEMORY),
        (PARALLEL, Weakness.RESUME_TWICE),
        (PARALLEL, Weakness.CUT_AGAIN),
    ],
)
def test_search_when_a_party_neglects_a_duty_then_finds_a_scenario_that_shows_it(
    strategy: StrategyName, weak: Weakness
) -> None:
    _, found = search((strategy, strategy), weak)
    assert found is not None
    *lines, violation = found
    text = "\n".join([f"weak: {weak}", *lines, f"expect: {violation}"])
    assert outcome(parse_scenario(text), trial, reconcile) == [violation]


def without_settlement(step: Step) -> Step:
    if step.name != "set-epoch":
        return step
    whole: Callable[[OperationRecord], Any] = step.command
    return replace(step, command=lambda record: whole(record).model_copy(update={"settlement": None}))


def returning(step: Step) -> Step:
    return replace(step, point_of_no_return=False)


@pytest.mark.parametrize(("strategy", "changed"), [(HANDOVER, without_settlement), (PARALLEL, returning)])
def test_search_when_a_table_is_wrong_then_finds_it(
    strategy: StrategyName, changed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(changed)
    right = table.strategies()[strategy]
    wrong = replace(right, steps=tuple(map(changed, right.steps)))
    monkeypatch.setitem(table.TABLES.registered, strategy, wrong)
    _, found = search((strategy,))
    assert found is not None


def test_zombie_target_when_its_epoch_was_used_again_then_two_publish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def next_epoch(entry: JobEntry, *, interim: bool = False) -> int:
        return entry.epoch + (2 if interim else 1)

    monkeypatch.setattr(JobEntry, "next_epoch", next_epoch)
    zombie = """
        migrate handover cloud
        m1-await-consistency: abort
        m1-launch-shadow-undo: lose
        m1-assign-target-undo: lose
        migrate handover out
        expect: holds
    """
    assert outcome(parse_scenario(zombie), trial, reconcile)[-1].startswith("violation")
