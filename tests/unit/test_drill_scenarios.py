"""The scenarios of the drill's cells, and the report on them."""

from __future__ import annotations

from collections import Counter

import pytest

from towpath.contracts.commands import OperationState, StrategyName
from towpath.contracts.faults import TargetKind
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.scenario import Step
from towpath.contracts.scenario_load import StandardJob
from towpath.lab.drill.cell_scenario import (
    BROKER_PAUSE_S,
    INPUT_SITE,
    OTHER_SITE,
    OUTPUT_SITE,
    has_two_inputs,
    output_site_of,
    process_of,
    scenario_of,
    source_of,
    target_of,
    workload_of,
)
from towpath.lab.drill.matrix import (
    CHANGES,
    COMPOSED,
    OPERATIONS,
    STEPS,
    ActorName,
    Cell,
    FaultName,
    matrix,
    pairs,
    select,
)
from towpath.lab.drill.table import cell_line, matrix_table
from towpath.lab.harness.judge import judged, still_judged
from towpath.lab.harness.report import MoveReport
from towpath.lab.harness.workload import spec_of
from towpath.lab.scenarios.campaign_report import CampaignReport
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.scenarios.reading import parse, plain
from towpath.lab.scenarios.report import RunReport

MOVES = [name for name in OPERATIONS if name not in CHANGES and name not in COMPOSED]


def cell(fault: str, actor: str, operation: str = "general", step: str = "resume") -> Cell:
    (found,) = select([operation], [step], [fault], [actor])
    return found


def harm(of: Cell) -> Step:
    return scenario_of(of).timeline[0]


def test_scenarios_when_made_for_all_cells_then_are_valid_and_have_names_of_their_own() -> None:
    scenarios = [scenario_of(each) for each in matrix()]
    for scenario in scenarios:
        check_scenario(scenario)
    assert len({scenario.name for scenario in scenarios}) == len(scenarios)


def test_scenario_when_written_to_a_file_then_can_be_read_again() -> None:
    for each in (cell("kill", "redis"), cell("twice", "target-agent"), cell("disk-full", "source-nats")):
        scenario = scenario_of(each)
        assert parse(plain(scenario)) == scenario


def test_scenario_when_played_then_moves_the_job_of_its_load_between_two_sites() -> None:
    for each in select(MOVES):
        scenario = scenario_of(each)
        (job,), (move,) = scenario.jobs, [step.migrate for step in scenario.timeline if step.migrate]
        assert isinstance(job, StandardJob)
        assert {job.site, move.to} == {INPUT_SITE, OTHER_SITE}
        assert (job.name, move.strategy) == (move.job, each.operation)
        assert (job.input_site, job.topic) == (scenario.load[0].site, scenario.load[0].topic)


@pytest.mark.parametrize("operation", [*MOVES, "update", "remove"])
def test_results_when_cells_are_played_then_are_kept_at_the_input_s_site_in_about_half_of_them(
    operation: str,
) -> None:
    sites = Counter(output_site_of(each) for each in matrix() if each.operation == operation)
    assert 0.25 < sites[INPUT_SITE] / sites.total() < 0.5
    assert set(sites) == {INPUT_SITE, OUTPUT_SITE}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_jobs_when_cells_are_played_then_about_half_of_them_begin_at_the_input_s_site(operation: str) -> None:
    sites = Counter(source_of(each) for each in matrix() if each.operation == operation)
    assert 0.35 < sites[INPUT_SITE] / sites.total() < 0.65
    assert set(sites) == {INPUT_SITE, OTHER_SITE}


def test_results_when_the_fault_hits_the_site_that_keeps_them_then_that_is_a_third_one() -> None:
    hit = {ActorName.OUTPUT_AGENT, ActorName.OUTPUT_NATS}
    assert {output_site_of(each) for each in matrix() if each.actor in hit} == {OUTPUT_SITE}


def test_cell_of_parallel_when_played_then_moves_processing_time_windows() -> None:
    kinds = {each.operation: workload_of(each) for each in matrix()}
    assert kinds[StrategyName.PARALLEL] == "processing"
    assert all(workload_of(each) != "processing" for each in matrix() if each.operation != "parallel")


def test_strike_when_its_actor_has_a_role_then_hits_the_process_that_plays_it() -> None:
    for each in (cell("kill", "source-engine"), cell("stop", "target-agent"), cell("disk-full", "redis")):
        strike = harm(each).strike
        assert strike is not None
        assert strike.name == process_of(each)
    hit = cell("kill", "source-engine")
    assert process_of(hit) == f"{source_of(hit)}-engine"
    assert process_of(cell("kill", "output-agent")) == "out-agent"
    assert process_of(cell("kill", "coordinator")) == "coordinator"


def test_strike_when_step_begins_then_comes_and_not_before() -> None:
    on = harm(cell("kill", "redis")).on
    assert on is not None
    assert on.event == "operation.*.step"
    assert (on.where["step"], on.where["phase"]) == ("resume", "begun")


def test_kill_when_victim_is_an_engine_then_its_family_lives_on() -> None:
    strike = harm(cell("kill", "target-engine")).strike
    assert strike is not None
    assert strike.parameters == {"alone": True}


def test_stop_when_victim_is_a_broker_then_devices_do_not_give_it_up() -> None:
    strikes = [harm(cell("stop", actor)).strike for actor in ("source-nats", "source-agent")]
    assert [strike and strike.for_s for strike in strikes] == [BROKER_PAUSE_S, 10.0]


def test_cut_when_victim_is_a_broker_then_hits_the_link_of_its_site() -> None:
    cut = cell("cut", "output-nats")
    strike = harm(cut).strike
    assert strike is not None
    assert (strike.target, strike.name, strike.fault) == (TargetKind.LINK, OUTPUT_SITE, "cut")


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [
        ("cut", {}),
        ("cut-to-hub", {"only": "to_hub"}),
        ("cut-to-site", {"only": "to_site"}),
        ("cut-from-redis", {"only": "from_redis"}),
    ],
)
def test_cut_when_in_one_direction_then_says_which(fault: str, parameters: dict[str, str]) -> None:
    strike = harm(cell(fault, "output-nats")).strike
    assert strike is not None
    assert (strike.fault, strike.parameters) == ("cut", parameters)


@pytest.mark.parametrize(("actor", "machine"), [("output-nats", OUTPUT_SITE), ("redis", HUB_SCOPE)])
def test_power_when_it_fails_then_hits_the_machine_that_the_actor_stands_for(
    actor: str, machine: str
) -> None:
    strike = harm(cell("power", actor)).strike
    assert strike is not None
    assert (strike.target, strike.name, strike.fault) == (TargetKind.MACHINE, machine, "power")


def test_disk_when_it_is_lost_then_is_never_that_of_a_site_with_events_or_results() -> None:
    for each in matrix():
        if each.fault is FaultName.LOSE_DISK:
            strike = harm(each).strike
            assert strike is not None
            assert strike.parameters == {"lose_disks": True}
            assert strike.name == OTHER_SITE != output_site_of(each)


def test_events_when_the_disk_of_the_intake_is_full_then_may_be_missing_and_else_not() -> None:
    for each in matrix():
        intakes = {"a-nats", "out-nats"} if has_two_inputs(each) else {"a-nats"}
        full = each.fault is FaultName.DISK_FULL and process_of(each) in intakes
        assert scenario_of(each).expect.unstored.hold(1) is full
        assert scenario_of(each).expect.lost.at_most == 0


def test_order_when_events_are_cleaned_then_must_be_kept() -> None:
    for each in matrix():
        expect = scenario_of(each).expect
        assert expect.in_order is (workload_of(each) == "cleaned")
        assert expect.out_of_order.at_most == 0


def report(*problems: str) -> RunReport:
    return RunReport(
        scenario=cell("kill", "redis").scenario,
        migrations=[
            MoveReport(job="windows", strategy="general", state=OperationState.COMPLETED, total_s=2.5)
        ],
        problems=list(problems),
    )


def test_table_when_drill_is_over_then_has_a_row_for_each_step_that_was_run() -> None:
    table = matrix_table(CampaignReport(runs=[report(), report("lost")], planned=2))
    assert table.row_count == 1
    assert "1 not clean" in str(table.caption)


def test_line_when_cell_is_not_clean_then_says_why() -> None:
    line = cell_line(report("2 results lost"))
    assert "general/resume/kill/redis: completed in 2.5 s" in line
    assert "2 results lost" in line


def operated(of: Cell) -> Step:
    return scenario_of(of).timeline[-1]


def test_job_when_it_is_updated_then_keeps_its_inputs_and_its_computation() -> None:
    for operation, changed in (("adjust", "max_events_per_batch"), ("update", "trigger_s")):
        of = cell("kill", "redis", operation, "check-spec")
        job, update = scenario_of(of).jobs[0], operated(of).update
        before = spec_of(job)
        assert update is not None
        assert not update.wait
        differing = {n for n in type(before).model_fields if getattr(before, n) != getattr(update.spec, n)}
        assert differing == {changed}


def test_results_when_they_are_redirected_then_go_from_a_third_site_to_the_target() -> None:
    for each in select(["redirect"]):
        update = operated(each).update
        assert update is not None
        assert output_site_of(each) == OUTPUT_SITE
        assert update.spec.output_site == target_of(each)


@pytest.mark.parametrize("operation", ["remove", "redirect"])
def test_job_when_an_output_of_it_stays_then_has_a_name_of_its_own(operation: str) -> None:
    names = {scenario_of(each).jobs[0].name for each in select([operation])}
    assert len(names) == len(select([operation]))


def test_job_when_it_is_removed_then_neither_lag_nor_new_results_are_demanded() -> None:
    scenario = scenario_of(cell("kill", "redis", "remove", "stop-job"))
    assert {probe.probe for probe in scenario.steady_state} == {"site_up"}
    assert scenario.expect.results_again_within_s is None


def test_failover_when_played_then_its_source_is_cut_off_before_and_the_results_are_at_a_third_site() -> None:
    for each in select(["fail-over"]):
        scenario = scenario_of(each)
        job, (harm, lost, asked) = scenario.jobs[0], scenario.timeline
        assert isinstance(job, StandardJob)
        assert lost.strike is not None
        assert asked.fail_over is not None
        assert (lost.strike.target, lost.strike.name) == (TargetKind.LINK, job.site)
        assert (job.site, job.standby, job.output_site) == (source_of(each), target_of(each), OUTPUT_SITE)
        # Steps of one moment wait for each other, and an interception waits for the failover.
        assert len({step.at for step in scenario.timeline if step.at is not None}) == 3 - (harm.at is None)


def test_pipeline_when_it_is_applied_again_then_one_job_is_updated_one_moves_and_one_comes() -> None:
    of = cell("kill", "redis", "apply", "check-spec")
    before, after = scenario_of(of).pipeline, operated(of).apply
    assert before is not None
    assert after is not None
    (updated, moved), (slower, moved_after, _) = before.jobs, after.jobs
    assert slower == updated.model_copy(update={"trigger_s": 2 * updated.trigger_s})
    assert moved_after == moved.model_copy(update={"site": target_of(of)})
    assert moved.site != moved_after.site
    assert (moved.inputs[0].site, moved.inputs[0].topic) == (updated.output_site, updated.output.topic)


def test_plan_when_drilled_then_gateways_of_the_job_s_site_get_another_version_as_a_wave_begins() -> None:
    for each in select(["plan"]):
        scenario, on = scenario_of(each), harm(each).on
        assert scenario.gateways is not None
        assert on is not None
        assert (scenario.gateways.site, scenario.jobs[0].site) == (source_of(each), source_of(each))
        assert (on.event, on.where["wave"]) == ("plan.*.changed", 1 if each.step == "first-wave" else 2)
        assert operated(each).roll_out is not None
    assert not any(pair.operation == "plan" for pair in pairs())


def test_query_when_it_joins_a_text_then_only_the_job_that_answers_changes_and_is_still_judged() -> None:
    for each in select(["query"]):
        scenario, joined = scenario_of(each), operated(each).apply
        assert scenario.pipeline is not None
        assert joined is not None
        (*panes, answering), (*same, with_more) = scenario.pipeline.jobs, joined.jobs
        assert panes == same
        assert answering.job_spec() != with_more.job_spec()
        assert judged(with_more.job_spec())
        assert still_judged(answering.job_spec(), with_more.job_spec())
        assert answering.site == source_of(each)


def test_site_when_it_is_upgraded_then_is_the_job_s_and_the_job_goes_to_the_target_meanwhile() -> None:
    for each in select(["upgrade"]):
        scenario = scenario_of(each)
        upgrade = operated(each).upgrade
        assert upgrade is not None
        assert (upgrade.site, upgrade.to) == (scenario.jobs[0].site, target_of(each))


def test_job_when_it_has_two_inputs_then_both_have_a_load_at_their_site() -> None:
    cells = [each for each in matrix() if has_two_inputs(each)]
    assert {each.operation for each in cells} == set(STEPS) - {"parallel", "remove"}
    for each in cells:
        scenario = scenario_of(each)
        jobs = scenario.pipeline.jobs if scenario.pipeline else [spec_of(job) for job in scenario.jobs]
        inputs = {(entry.site, entry.topic) for job in jobs for entry in job.inputs if entry.from_device}
        assert inputs == {(load.site, load.topic) for load in scenario.load}
        assert len(inputs) == 2


def test_pair_when_played_then_its_second_fault_waits_for_the_next_step_or_for_the_end() -> None:
    pair = pairs()[0]
    first, second = scenario_of(pair).timeline[:2]
    assert first.on is not None
    assert second.on is not None
    assert (first.on.where["step"], second.on.where["step"]) == (pair.step, pair.next_step)
    assert (first.on.unless_ended, second.on.unless_ended) == (None, first.on.where["job"])


def test_pairs_when_made_then_are_valid_and_hit_two_parties() -> None:
    for each in pairs()[::40]:
        check_scenario(scenario_of(each))
        assert each.second
        assert each.second[1].partition("-")[0] != each.party
