"""The cells of the drill, and the choice of a sample."""

from collections import Counter

import pytest

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError
from towpath.lab.drill.matrix import (
    BROKERS,
    HAVE_TARGET,
    OPERATIONS,
    STEPS,
    TARGETS,
    UPGRADE,
    ActorName,
    Cell,
    FaultName,
    matrix,
    named,
    pairs,
    sample,
    select,
)


def test_matrix_when_listed_then_every_step_of_every_operation_meets_every_process() -> None:
    cells = set(matrix())
    for name, table in OPERATIONS.items():
        for step in table.steps:
            left_out = {ActorName.MONITOR} | (TARGETS if name not in HAVE_TARGET else set())
            if name == "redirect":
                left_out.add(ActorName.TARGET_ENGINE)
            for actor in set(ActorName) - left_out:
                assert Cell(name, step.name, FaultName.KILL, actor) in cells
                assert Cell(name, step.name, FaultName.STOP, actor) in cells


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
    steps = {cell.step for cell in cells if cell.operation == StrategyName.GENERAL}
    assert "pause-transfer" in steps
    assert "resume" not in steps


@pytest.mark.parametrize("fault", [FaultName.LOSE_REPLY, FaultName.TWICE])
def test_fault_of_a_command_when_listed_then_concerns_the_step_s_own_actor(fault: FaultName) -> None:
    cells = [cell for cell in matrix() if cell.fault is fault]
    actors = {cell.step: cell.actor for cell in cells if cell.operation == StrategyName.HANDOVER}
    assert actors["ship-checkpoint"] is ActorName.SOURCE_AGENT
    assert actors["launch-shadow"] is ActorName.TARGET_AGENT
    assert actors["set-epoch"] is ActorName.OUTPUT_AGENT
    assert actors["await-consistency"] is ActorName.MONITOR
    assert "record-owner" not in actors


def test_monitor_when_operation_has_no_use_for_it_then_is_not_hit() -> None:
    hit = {cell.operation for cell in matrix() if cell.actor is ActorName.MONITOR}
    assert hit == {StrategyName.HANDOVER, StrategyName.PARALLEL, StrategyName.TWIN, UPGRADE}


def test_select_when_names_are_given_then_only_their_cells_are_left() -> None:
    cells = select(["general"], ["resume", "set-epoch"], ["kill"], ["redis"])
    assert [cell.name for cell in cells] == ["general/set-epoch/kill/redis", "general/resume/kill/redis"]


@pytest.mark.parametrize("field", ["operation", "step", "fault", "actor"])
def test_select_when_name_is_unknown_then_error_says_what_is_allowed(field: str) -> None:
    given = {name: ["mars"] if name == field else [] for name in ("operation", "step", "fault", "actor")}
    with pytest.raises(TowpathError) as caught:
        select(given["operation"], given["step"], given["fault"], given["actor"])
    detail = caught.value.detail
    assert (detail.field, detail.value) == (field, "mars")
    assert detail.allowed


def test_select_when_combination_makes_no_sense_then_error_says_so() -> None:
    with pytest.raises(TowpathError, match="no cell of the matrix"):
        select(faults=["cut"], actors=["redis"])


def test_cells_when_asked_for_by_name_then_come_in_that_order() -> None:
    names = ["update/stop-job/kill/redis", "general/resume/cut/source-nats"]
    assert [cell.name for cell in named(names)] == names
    with pytest.raises(TowpathError, match="no such cell"):
        named(["update/stop-job/kill/mars"])


def test_sample_when_drawn_twice_with_one_seed_then_is_the_same() -> None:
    assert sample(matrix(), 20, seed=7) == sample(matrix()[::-1], 20, seed=7)
    assert sample(matrix(), 20, seed=7) != sample(matrix(), 20, seed=8)


@pytest.mark.parametrize("seed", range(5))
def test_sample_when_drawn_then_is_spread_over_operations_and_faults(seed: int) -> None:
    kinds = len({(cell.operation, cell.fault) for cell in matrix()})
    drawn = Counter((cell.operation, cell.fault) for cell in sample(matrix(), 2 * kinds, seed))
    assert set(drawn.values()) == {2}
    assert len(drawn) == kinds


def test_sample_when_larger_than_the_matrix_then_is_the_matrix() -> None:
    assert sorted(sample(matrix(), 10_000, seed=1)) == sorted(matrix())


def test_command_that_opens_the_new_output_when_meddled_with_then_is_that_of_the_site_it_goes_to() -> None:
    cells = select(["redirect"], [], ["twice"])
    actors = {cell.step: cell.actor for cell in cells}
    assert actors["close-output"] is ActorName.OUTPUT_AGENT
    assert actors["set-epoch"] is ActorName.TARGET_AGENT


def test_failover_when_listed_then_does_not_cut_the_site_that_is_cut_off_already() -> None:
    cut = {cell.actor for cell in select(["fail-over"], [], ["cut", "cut-to-hub", "cut-from-redis"])}
    assert cut == BROKERS - {ActorName.SOURCE_NATS}


def test_operation_without_a_second_site_when_listed_then_hits_none() -> None:
    assert not {cell.actor for cell in select(["adjust", "update", "remove"])} & TARGETS


@pytest.mark.parametrize(
    ("fault", "actor"), [("two-coordinators", "coordinator"), ("redis-from-yesterday", "redis")]
)
def test_trouble_of_the_hub_when_listed_then_comes_once_for_each_step(fault: str, actor: str) -> None:
    cells = select([], [], [fault])
    assert {cell.actor for cell in cells} == {actor}
    assert len(cells) == sum(map(len, STEPS.values()))


def test_pairs_when_listed_then_are_the_same_each_time_and_have_names_that_are_found_again() -> None:
    listed = pairs()
    assert listed == pairs()
    assert named([listed[7].name]) == [listed[7]]
    assert len({cell.scenario for cell in (*listed, *matrix())}) == len(listed) + len(matrix())


def test_select_when_pairs_are_wanted_too_then_has_both() -> None:
    assert select(paired=None) == [*matrix(), *pairs()]
    assert select(["update"], paired=True) == [cell for cell in pairs() if cell.operation == "update"]
