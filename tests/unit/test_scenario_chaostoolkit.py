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
from towpath.scenarios.chaostoolkit.exporting import ACTIONS, FUNCTIONS, PROBES, exported
from towpath.scenarios.chaostoolkit.importing import imported, read_experiment
from towpath.scenarios.reading import LIBRARY, parse, read

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
