"""Chaos Toolkit's format: valid there, the same again here, and what is foreign is refused."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from chaoslib.exceptions import InvalidActivity
from chaoslib.experiment import ensure_experiment_is_valid
from chaoslib.types import Experiment
from test_scenario_reading import document

from towpath.contracts.errors import TowpathError
from towpath.contracts.scenario import STEP_ACTIONS, Scenario
from towpath.lab.scenarios.chaostoolkit.exporting import ACTIONS, FUNCTIONS, PROBES, exported
from towpath.lab.scenarios.chaostoolkit.importing import imported, read_experiment
from towpath.lab.scenarios.probes import judged
from towpath.lab.scenarios.reading import LIBRARY, parse, read

OPERATOR = {"kind": "clean", "fields": {"n": {"type": "long"}}, "identity": ["n"]}
SPEC = {
    "name": "cleaned",
    "site": "jfk",
    "inputs": [{"site": "jfk", "topic": "site/scenario"}],
    "output": {"topic": "out/cleaned"},
    "operator": OPERATOR,
}

TWO_NODES = Path(__file__).with_name("two_nodes.yaml")

EVERYTHING = document(
    mesh={"topology": str(TWO_NODES)},
    jobs=[{"name": "counted", "workload": "windows", "site": "jfk"}, SPEC],
    steady_state=[
        {"probe": "throughput", "job": "counted", "within_percent": 33.3, "over_s": "2s"},
        {"probe": "output_gap", "job": "counted", "at_most_s": "2500ms"},
        {"probe": "latency", "job": "counted", "at_most_s": 1.5},
        {"probe": "lag", "job": "counted", "at_most_events": 100},
        {"probe": "site_up", "site": "jfk"},
        {"probe": "metric", "name": "batch_processing_s", "at_most": 2.0},
        {"probe": "rest", "path": "/jobs/counted", "status": 200},
    ],
    timeline=[
        {"at": "1s", "unload": ["r"]},
        {
            "at": 0.1,
            "load": [{"name": "r", "event": {"point": "bus.send"}, "actions": [{"fault": "drop"}]}],
        },
        {"at": 0.3, "migrate": {"job": "counted", "strategy": "handover"}},
        {"on": {"event": "operation.*.ended", "where": {"job": "counted"}}, "deploy": {**SPEC, "name": "d"}},
        {"at": 0.3, "update": {"spec": {**SPEC, "trigger_s": 3}}},
        {"at": 2, "scale": {"job": "counted", "trigger_s": 2}},
        {"at": 2, "apply": {"name": "p", "jobs": []}},
        {"at": 2.5, "remove": {"job": "counted", "drain": True}},
        {"at": 2.6, "process": {"path": "true", "arguments": ["--now"]}},
        {"at": 2.7, "node": {"do": "fail", "nodes": ["jfk"], "for_s": "3s"}},
    ],
    expect={"lost": {"at_least": 1}, "migrations": "well"},
    vary=[{"path": "timeline.0.at", "between": [0, 1]}],
)


def experiment(**changes: Any) -> dict[str, Any]:
    """As somebody writes one who never saw a scenario."""
    content = {
        "title": "What if JFK is slow?",
        "description": "An experiment",
        "configuration": {"job": "hourly", "delay": {"type": "env", "key": "UNSET_DELAY", "default": 40}},
        "controls": [{"name": "a-control", "provider": {"type": "python", "module": "somebody.control"}}],
        "steady-state-hypothesis": {
            "title": "Results come",
            "probes": [
                {
                    "type": "probe",
                    "name": "gap",
                    "tolerance": [0, 5],
                    "provider": python(PROBES, "output_gap", job="${job}"),
                },
                {
                    "type": "probe",
                    "name": "api",
                    "tolerance": 200,
                    "provider": {"type": "http", "url": "http://127.0.0.1:8080/sites"},
                },
            ],
        },
        "method": [
            {
                "type": "action",
                "name": "slow",
                "provider": python(ACTIONS, "load_rules", rules=[slow("${delay}")]),
                "pauses": {"before": 2, "after": 3},
            },
            {
                "type": "action",
                "name": "move",
                "provider": {
                    "type": "http",
                    "method": "POST",
                    "url": "${towpath_api}/jobs/hourly/migrations",
                    "arguments": {"to": "cloud"},
                },
            },
        ],
        "rollbacks": [{"type": "action", "name": "undo", "provider": python(ACTIONS, "unload_rules")}],
    }
    return content | changes


def python(module: str, function: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "python", "module": module, "func": function, "arguments": arguments}


def slow(delay: Any) -> dict[str, Any]:
    return {
        "name": "slow",
        "event": {"point": "sink.publish"},
        "where": {"job": "hourly"},
        "actions": [{"fault": "delay", "parameters": {"ms": delay}}],
    }


def action(provider: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "action", "name": "a", "provider": provider}]


def refusal(**changes: Any) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        imported(experiment(**changes))
    return refused.value


def through_json(scenario: Scenario) -> dict[str, Any]:
    return json.loads(json.dumps(exported(scenario), allow_nan=False))


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_scenario_when_exported_and_imported_then_is_the_same(name: str) -> None:
    assert imported(through_json(read(name))) == read(name)


def test_scenario_when_it_has_every_probe_and_action_then_comes_back_the_same() -> None:
    scenario = parse(EVERYTHING)
    assert {step.action for step in scenario.timeline} == set(STEP_ACTIONS)
    assert imported(through_json(scenario), allow_process=True) == scenario


@pytest.mark.parametrize("name", LIBRARY.names())
def test_library_scenario_when_exported_then_chaos_toolkit_finds_it_valid(name: str) -> None:
    content: Any = through_json(read(name))
    ensure_experiment_is_valid(content)


def test_every_kind_when_exported_then_chaos_toolkit_finds_functions_and_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOWPATH_TOKEN", "t")
    content: Any = through_json(parse(EVERYTHING))
    ensure_experiment_is_valid(content)
    broken: Experiment = copy.deepcopy(content)
    broken["method"][0]["provider"]["func"] = "no_such_function"
    with pytest.raises(InvalidActivity):
        ensure_experiment_is_valid(broken)


def test_functions_when_named_in_experiments_then_exist_and_are_documented() -> None:
    module = importlib.import_module(ACTIONS)
    for function in FUNCTIONS.values():
        assert inspect.getdoc(getattr(module, function))
    assert set(FUNCTIONS) == set(STEP_ACTIONS) - {"process"}


def test_experiment_when_from_elsewhere_then_becomes_a_scenario_on_jobs_that_run() -> None:
    scenario = imported(experiment())
    assert (scenario.name, scenario.mesh.jobs) == ("what-if-jfk-is-slow", ["hourly"])
    assert [probe.probe for probe in scenario.steady_state] == ["output_gap", "rest"]
    load, move = scenario.timeline
    assert (load.at, move.at) == (2.0, 5.0)
    assert load.load is not None
    assert load.load[0].actions[0].parameters == {"ms": 40}
    assert move.migrate is not None
    assert (move.migrate.job, move.migrate.to) == ("hourly", "cloud")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"method": action(python("chaosk8s.pod.actions", "terminate_pods"))}, "method.0.provider"),
        ({"method": action(python(ACTIONS, "terminate"))}, "method.0.provider.func"),
        ({"method": action({"type": "process", "path": "rm"})}, "method.0.provider"),
        ({"method": action({"type": "http", "url": "https://example.com/jobs"})}, "method.0.provider.url"),
        (
            {"method": action({"type": "http", "url": "${towpath_api}/sites", "method": "POST"})},
            "method.0.provider",
        ),
        (
            {"rollbacks": action(python("somebody", "repair"))},
            "rollbacks.0.provider",
        ),
        ({"steady-state-hypothesis": {}}, "steady-state-hypothesis.probes"),
    ],
)
def test_foreign_part_when_imported_then_is_refused_with_its_place(
    changes: dict[str, Any], field: str
) -> None:
    error = refusal(**changes)
    assert error.detail.field == field
    assert error.detail.allowed


def test_program_when_allowed_then_is_kept_as_a_program() -> None:
    provider = {"type": "process", "path": "echo", "arguments": "-n 'a b'", "timeout": 3}
    scenario = imported(experiment(method=action(provider)), allow_process=True)
    [step] = scenario.timeline
    assert step.process is not None
    assert (step.process.path, step.process.arguments, step.process.timeout_s) == ("echo", ["-n", "a b"], 3)


def test_tolerance_when_somebody_changed_it_then_the_probe_has_the_new_one() -> None:
    content = through_json(read("lossy-link"))
    for probe in content["steady-state-hypothesis"]["probes"]:
        if probe["provider"]["func"] == "lag":
            probe["tolerance"]["range"][1] = 4321
    [lag] = [probe for probe in imported(content).steady_state if probe.probe == "lag"]
    assert lag.at_most_events == 4321


def test_experiment_when_written_as_yaml_then_is_read_the_same(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(experiment()))
    assert imported(read_experiment(file)) == imported(experiment())


def probe(function: str, tolerance: Any, **arguments: Any) -> dict[str, Any]:
    provider = python(PROBES, function, job="hourly", **arguments)
    return {"type": "probe", "name": function, "tolerance": tolerance, "provider": provider}


def hypothesis(*probes: dict[str, Any]) -> dict[str, Any]:
    return {"title": "Steady", "probes": list(probes)}


def test_pause_behind_a_probe_when_imported_then_what_follows_comes_later() -> None:
    loading, unloading = (
        action(python(ACTIONS, "load_rules", rules=[slow(40)])),
        action(python(ACTIONS, "unload_rules", names=["slow"])),
    )
    looking = {**probe("output_gap", [0, 5]), "pauses": {"before": 1, "after": 20}}
    scenario = imported(experiment(method=[*loading, looking, *unloading]))
    assert [(step.action, step.at) for step in scenario.timeline] == [("load", 0.0), ("unload", 21.0)]


@pytest.mark.parametrize(
    ("function", "tolerance"),
    [
        ("throughput", [50, 110]),
        ("throughput", [100, 150]),
        ("throughput", {"type": "range", "range": [0, 100]}),
        ("lag", [5, 10]),
        ("latency", [0.5, 2]),
        ("output_gap", [1, 5]),
    ],
)
def test_tolerance_when_the_probe_cannot_say_it_then_is_refused_and_not_another_one_taken(
    function: str, tolerance: Any
) -> None:
    error = refusal(**{"steady-state-hypothesis": hypothesis(probe(function, tolerance))})
    assert error.detail.field == "steady-state-hypothesis.probes.0.tolerance"
    assert error.detail.allowed


def test_throughput_when_as_far_below_as_above_then_is_within_that() -> None:
    scenario = imported(
        experiment(**{"steady-state-hypothesis": hypothesis(probe("throughput", [66.7, 133.3]))})
    )
    [found] = scenario.steady_state
    assert found.probe == "throughput"
    assert found.within_percent == 33.3


def test_several_statuses_when_tolerated_then_each_of_them_is_inside_and_none_between() -> None:
    request = {"type": "http", "url": "${towpath_api}/sites"}
    asking = {"type": "probe", "name": "api", "tolerance": [200, 204], "provider": request}
    scenario = imported(experiment(**{"steady-state-hypothesis": hypothesis(asking)}))
    [found] = scenario.steady_state
    assert [judged(found, status).inside for status in (200, 202, 204, None)] == [True, False, True, False]
    assert imported(through_json(scenario)) == scenario


def test_reference_when_in_the_method_then_stands_for_the_activity_of_that_name() -> None:
    method = [
        {"ref": "gap"},
        *action(python(ACTIONS, "load_rules", rules=[slow(40)])),
        {"ref": "a"},
    ]
    scenario = imported(experiment(method=method))
    assert [step.action for step in scenario.timeline] == ["load", "load"]
    assert refusal(method=[{"ref": "nobody"}]).detail.field == "method.0.ref"


def test_request_when_a_probe_of_the_method_then_is_passed_over_if_it_is_towpaths() -> None:
    looking = {"type": "probe", "name": "p", "provider": {"type": "http", "url": "${towpath_api}/sites"}}
    foreign = {"type": "probe", "name": "p", "provider": {"type": "http", "url": "https://example.com/"}}
    assert imported(experiment(method=[looking])).timeline == []
    assert refusal(method=[foreign]).detail.field == "method.0.provider.url"


@pytest.mark.parametrize("pause", ["${unknown}", -1, "soon", float("nan")])
def test_pause_when_it_is_no_length_of_time_then_is_refused(pause: Any) -> None:
    [step] = action(python(ACTIONS, "unload_rules", names=["slow"]))
    assert refusal(method=[{**step, "pauses": {"after": pause}}]).detail.field == "method.0.pauses.after"


def test_steps_when_exported_then_stand_in_their_order_of_time_with_the_pauses_between() -> None:
    content = through_json(parse(EVERYTHING))
    names = [step["name"].partition(":")[0] for step in content["method"]]
    assert names == ["4", "2", "3", "5", "1", "6", "7", "8", "9", "10"]
    pauses = [step.get("pauses", {}).get("before", 0.0) for step in content["method"]]
    assert pauses == pytest.approx([0, 0.1, 0.2, 0, 0.7, 1.0, 0, 0.5, 0.1, 0.1])
    assert not any("at" in step["provider"]["arguments"] for step in content["method"])


def test_step_when_somebody_added_one_to_an_exported_experiment_then_all_come_in_order_of_time() -> None:
    content = through_json(parse(EVERYTHING))
    content["method"] += action(python(ACTIONS, "unload_rules", names=["r"]))
    scenario = imported(content, allow_process=True)
    assert len(scenario.timeline) == len(content["method"])
    moments = [step.at for step in scenario.timeline if step.at is not None]
    assert moments == sorted(moments)
