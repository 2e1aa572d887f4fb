"""Scenario files: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario import Scenario
from towpath.lab.scenarios.checking import check_leased, idle_rules, rules_of
from towpath.lab.scenarios.reading import LIBRARY, parse, read, to_yaml


def document(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "name": "a-scenario",
        "jobs": [{"name": "counted", "workload": "windows", "site": "jfk", "output_site": "cloud"}],
        "load": [{"site": "jfk", "rate": 100}],
        "steady_state": [{"probe": "lag", "job": "counted", "at_most_events": 500}],
        "timeline": [
            {
                "at": "2s",
                "load": [
                    {
                        "name": "results-lost",
                        "event": {"point": "sink.publish"},
                        "actions": [{"fault": "drop"}],
                    }
                ],
            }
        ],
    }
    return content | changes


def rule(**changes: Any) -> dict[str, Any]:
    content = {"name": "r", "event": {"point": "sink.publish"}, "actions": [{"fault": "drop"}]}
    return {"at": 0, "load": [content | changes]}


def strike(**changes: Any) -> dict[str, Any]:
    return {"at": 0, "strike": {"target": "process", "name": "jfk-engine", "fault": "kill"} | changes}


def intercept(**changes: Any) -> dict[str, Any]:
    return {"at": 0, "intercept": {"job": "counted", "step": "resume", "do": "lose_reply"} | changes}


def refusal(**changes: Any) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        parse(document(**changes))
    return refused.value


def test_library_when_listed_then_has_fifteen_or_more_that_can_be_read() -> None:
    names = LIBRARY.names()
    assert len(names) >= 15
    assert [read(name).name for name in names] == names


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_scenario_when_written_as_yaml_then_reads_back_the_same(name: str, tmp_path: Path) -> None:
    scenario = read(name)
    copy = tmp_path / "copy.yaml"
    copy.write_text(to_yaml(scenario))
    assert read(str(copy)) == scenario


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_scenario_when_read_then_says_what_happens_and_what_steady_is(name: str) -> None:
    scenario = read(name)
    assert len(scenario.description) > 20
    assert {probe.probe for probe in scenario.steady_state} >= {"throughput", "output_gap", "site_up"}


def test_name_when_not_in_the_library_then_refused_with_those_that_are() -> None:
    with pytest.raises(TowpathError) as refused:
        read("engine-kiled")
    assert "lossy-link" in (refused.value.detail.allowed or ())


def test_yaml_when_a_step_has_on_then_it_is_not_taken_for_a_truth_value(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: s\nmesh: {jobs: [counted]}\nsteady_state: [{probe: site_up, site: jfk}]\n"
        "timeline:\n  - on: operation.*.begun\n    migrate: {job: counted}\n"
    )
    [step] = read(str(file)).timeline
    assert step.on is not None
    assert step.on.event == "operation.*.begun"


@pytest.mark.parametrize(
    ("text", "seconds"), [("12s", 12.0), ("500ms", 0.5), ("2m", 120.0), ("1.5s", 1.5), (3, 3.0)]
)
def test_time_when_given_with_a_unit_or_none_then_is_in_seconds(text: Any, seconds: float) -> None:
    scenario = parse(document(timeline=[{**rule(), "at": text}]))
    assert scenario.timeline[0].at == seconds


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"jobz": []}, "jobz"),
        ({"load": [{"site": "mars", "rate": 100}]}, "load.0.site"),
        ({"load": [{"site": "jfk", "rate": 0}]}, "load.0.synthetic.rate"),
        ({"steady_state": [{"probe": "lag", "job": "other", "at_most_events": 1}]}, "steady_state.0.job"),
        ({"steady_state": []}, "steady_state"),
        ({"timeline": [{"at": "soon", "unload": ["x"]}]}, "timeline.0.at"),
        ({"timeline": [{"at": 0, "unload": ["x"]}]}, "timeline.0.unload.0"),
        ({"timeline": [{"at": 0, "migrate": {"job": "other"}}]}, "timeline.0.migrate.job"),
        ({"timeline": [{"at": 0, "migrate": {"job": "counted", "to": "mars"}}]}, "timeline.0.migrate.to"),
        ({"timeline": [{"at": 0, "pace": {"rate": 5, "site": "cloud"}}]}, "timeline.0.pace.site"),
        ({"load": [], "timeline": [{"at": 0, "pace": {"rate": 5}}]}, "timeline.0.pace.site"),
        (
            {"mesh": {"jobs": ["theirs"]}, "timeline": [{"at": 0, "remove": {"job": "theirs"}}]},
            "timeline.0.remove.job",
        ),
        ({"timeline": [strike(name="jfk-engin")]}, "timeline.0.strike.name"),
        ({"timeline": [strike(fault="drop")]}, "timeline.0.strike.fault"),
        ({"timeline": [strike(parameters={"aloon": True})]}, "timeline.0.strike.parameters.aloon"),
        ({"timeline": [strike(target="link", name="mars", fault="cut")]}, "timeline.0.strike.name"),
        ({"timeline": [intercept(job="other")]}, "timeline.0.intercept.job"),
        ({"timeline": [intercept(step="resum")]}, "timeline.0.intercept.step"),
        ({"timeline": [rule(event={"point": "sink.publich"})]}, "timeline.0.load.0.event.point.point"),
        ({"timeline": [rule(condition="1 >")]}, "timeline.0.load.0.condition"),
        ({"timeline": [rule(every=0)]}, "timeline.0.load.0.every"),
        ({"timeline": [rule(where={"job": "other"})]}, "timeline.0.load.0.where.job"),
        (
            {
                "timeline": [
                    rule(event={"target": "process", "name": "jfk-engin"}, actions=[{"fault": "kill"}])
                ]
            },
            "timeline.0.load.0.event.name",
        ),
        ({"timeline": [rule(actions=[{"fault": "dorp"}])]}, "timeline.0.load.0.actions.0.fault"),
    ],
)
def test_mistake_when_anywhere_in_a_scenario_then_is_refused_with_its_place(
    changes: dict[str, Any], field: str
) -> None:
    assert refusal(**changes).detail.field == field


def test_shape_when_its_values_are_missing_then_is_refused_with_what_it_takes() -> None:
    error = refusal(load=[{"site": "jfk", "shape": "burst", "rate": 10}])
    assert "burst_s, peak, period_s" in str(error)


@pytest.mark.parametrize("step", [{"migrate": {"job": "counted"}}, {"at": 0}, {**rule(), "unload": ["r"]}])
def test_step_when_it_has_not_one_time_and_one_action_then_is_refused(step: dict[str, Any]) -> None:
    assert "exactly one" in str(refusal(timeline=[step]))


def test_link_rule_when_the_mesh_emulates_no_links_then_is_refused() -> None:
    step = rule(event={"target": "link", "name": "jfk"}, actions=[{"fault": "cut"}])
    assert refusal(timeline=[step], mesh={"emulate_links": False}).detail.value == "link"


@pytest.mark.parametrize("step", [strike(), intercept()])
def test_harm_when_the_mesh_is_not_the_run_s_own_then_is_refused(step: dict[str, Any]) -> None:
    with pytest.raises(TowpathError) as refused:
        check_leased(parse(document(timeline=[step])))
    assert refused.value.detail.code is ErrorCode.NOT_ALLOWED
    check_leased(parse(document()))


@pytest.mark.parametrize("step", [strike(), intercept()])
def test_harm_when_sites_are_nodes_of_a_topology_then_is_refused(step: dict[str, Any]) -> None:
    mesh = {"topology": "factory", "sites": ["jfk", "cloud"]}
    errors = refusal(mesh=mesh, timeline=[step]).detail.errors
    assert f"timeline.0.{'strike' if 'strike' in step else 'intercept'}" in [e.field for e in errors]


def test_idle_rules_when_some_are_about_processes_then_stand_for_those_and_never_act() -> None:
    steps = [
        rule(),
        rule(name="k", event={"target": "process", "name": "jfk-engine"}, actions=[{"fault": "kill"}]),
        rule(name="l", event={"target": "link", "name": "jfk"}, actions=[{"fault": "cut"}]),
    ]
    scenario = parse(document(timeline=steps))
    [idle] = idle_rules(scenario)
    assert (idle.condition, idle.event) == ("false", rules_of(scenario)[1].event)
    assert idle.name not in {found.name for found in rules_of(scenario)}


def test_schema_when_exported_then_accepts_times_with_units() -> None:
    schema = Scenario.model_json_schema()
    before = schema["$defs"]["Phases"]["properties"]["before_s"]
    assert {entry.get("type") for entry in before["anyOf"]} == {"number", "string"}
