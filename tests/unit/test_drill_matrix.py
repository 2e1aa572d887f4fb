"""The cells of the drill, and the choice of a sample."""

from collections import Counter

import pytest

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError
from towpath.lab.drill.matrix import BROKERS, STRATEGIES, ActorName, Cell, FaultName, matrix, sample, select


def test_matrix_when_listed_then_every_step_of_every_strategy_meets_every_process() -> None:
    cells = set(matrix())
    for name, strategy in STRATEGIES.items():
        for step in strategy.steps:
            for actor in set(ActorName) - {ActorName.MONITOR}:
                assert Cell(StrategyName(name), step.name, FaultName.KILL, actor) in cells
                assert Cell(StrategyName(name), step.name, FaultName.STOP, actor) in cells


def test_matrix_when_listed_then_no_cell_comes_twice() -> None:
    assert max(Counter(matrix()).values()) == 1


def test_cut_when_listed_then_hits_only_brokers_where_links_end() -> None:
    assert {cell.actor for cell in matrix() if cell.fault is FaultName.CUT} == BROKERS


def test_disk_full_when_listed_then_spares_those_without_files() -> None:
    hit = {cell.actor for cell in matrix() if cell.fault is FaultName.DISK_FULL}
    assert hit == set(ActorName) - {ActorName.COORDINATOR, ActorName.MONITOR}


def test_power_when_listed_then_hits_each_machine_once() -> None:
    hit = {cell.actor for cell in matrix() if cell.fault is FaultName.POWER}
    assert hit == BROKERS | {ActorName.REDIS}


def test_sleep_when_listed_then_hits_the_machine_of_each_site_and_not_the_hub_s() -> None:
    assert {cell.actor for cell in matrix() if cell.fault is FaultName.SUSPEND} == BROKERS


def test_lose_disk_when_listed_then_hits_the_target_and_only_while_the_migration_can_be_undone() -> None:
    cells = [cell for cell in matrix() if cell.fault is FaultName.LOSE_DISK]
    assert {cell.actor for cell in cells} == {ActorName.TARGET_NATS}
    steps = {cell.step for cell in cells if cell.strategy is StrategyName.GENERAL}
    assert "pause-transfer" in steps
    assert "resume" not in steps


@pytest.mark.parametrize("fault", [FaultName.LOSE_REPLY, FaultName.TWICE])
def test_fault_of_a_command_when_listed_then_concerns_the_step_s_own_actor(fault: FaultName) -> None:
    cells = [cell for cell in matrix() if cell.fault is fault]
    actors = {cell.step: cell.actor for cell in cells if cell.strategy is StrategyName.HANDOVER}
    assert actors["ship-checkpoint"] is ActorName.SOURCE_AGENT
    assert actors["launch-shadow"] is ActorName.TARGET_AGENT
    assert actors["set-epoch"] is ActorName.OUTPUT_AGENT
    assert actors["await-consistency"] is ActorName.MONITOR
    assert "record-owner" not in actors


def test_monitor_when_strategy_has_no_use_for_it_then_is_not_hit() -> None:
    hit = {cell.strategy for cell in matrix() if cell.actor is ActorName.MONITOR}
    assert hit == {StrategyName.HANDOVER, StrategyName.PARALLEL, StrategyName.TWIN}


def test_select_when_names_are_given_then_only_their_cells_are_left() -> None:
    cells = select(["general"], ["resume", "set-epoch"], ["kill"], ["redis"])
    assert [cell.name for cell in cells] == ["general/set-epoch/kill/redis", "general/resume/kill/redis"]


@pytest.mark.parametrize("field", ["strategy", "step", "fault", "actor"])
def test_select_when_name_is_unknown_then_error_says_what_is_allowed(field: str) -> None:
    given = {name: ["mars"] if name == field else [] for name in ("strategy", "step", "fault", "actor")}
    with pytest.raises(TowpathError) as caught:
        select(given["strategy"], given["step"], given["fault"], given["actor"])
    detail = caught.value.detail
    assert (detail.field, detail.value) == (field, "mars")
    assert detail.allowed


def test_select_when_combination_makes_no_sense_then_error_says_so() -> None:
    with pytest.raises(TowpathError, match="no cell of the matrix"):
        select(faults=["cut"], actors=["redis"])


def test_sample_when_drawn_twice_with_one_seed_then_is_the_same() -> None:
    assert sample(matrix(), 20, seed=7) == sample(matrix()[::-1], 20, seed=7)
    assert sample(matrix(), 20, seed=7) != sample(matrix(), 20, seed=8)


@pytest.mark.parametrize("seed", range(5))
def test_sample_when_drawn_then_is_spread_over_strategies_and_faults(seed: int) -> None:
    kinds = len(STRATEGIES) * len(FaultName)
    drawn = Counter((cell.strategy, cell.fault) for cell in sample(matrix(), 2 * kinds, seed))
    assert set(drawn.values()) == {2}
    assert len(drawn) == kinds


def test_sample_when_larger_than_the_matrix_then_is_the_matrix() -> None:
    assert sorted(sample(matrix(), 10_000, seed=1)) == sorted(matrix())
