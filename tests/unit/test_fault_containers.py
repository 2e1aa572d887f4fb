"""Rules about containers are judged by what the daemon has, and told in sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from towpath.containers.errors import USUAL_HOST, NoDaemon
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.faults import Rule, Where
from towpath.lab.faults.explanation import explain
from towpath.lab.faults.registry import faults
from towpath.lab.faults.validation import problems
from towpath.lab.faults.world import World

ROOT = Path(__file__).parents[2]
WORLD = World(
    containers=frozenset({"towpath-jfk", "towpath-lga"}),
    networks={"towpath-jfk": frozenset({"site-jfk", "services"}), "towpath-lga": frozenset()},
)


def rule(fault: str, name: str = "towpath-jfk", **parameters: Any) -> Rule:
    event = {"target": "container", "name": name}
    actions = [{"fault": fault, "parameters": parameters}]
    return Rule.model_validate({"name": "r", "event": event, "actions": actions})


def only_problem(given: Rule, world: World = WORLD) -> ErrorDetail:
    (error,) = problems(given, world)
    return error


def test_overlay_for_container_faults_when_laid_on_a_mesh_then_its_injector_alone_has_the_daemon() -> None:
    mesh = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    overlay = yaml.safe_load((ROOT / "infra" / "docker" / "faults.yaml").read_text())
    assert list(overlay) == ["services"]
    assert list(overlay["services"]) == ["injector"]
    assert "injector" not in mesh["services"], "rules are off in the committed file"
    socket = USUAL_HOST.removeprefix("unix://")
    [mount] = overlay["services"]["injector"]["volumes"]
    assert mount == f"${{DOCKER_SOCKET:-{socket}}}:{socket}"
    assert overlay["services"]["injector"]["group_add"] == ["${DOCKER_GROUP:-0}"]


def test_faults_of_containers_when_listed_then_are_all_that_can_be_done_to_one() -> None:
    listed = {name for name, kind in faults().items() if "container" in kind.applies_to}
    assert listed == {"pause", "kill", "restart", "stop", "disconnect", "cpu_limit", "memory_limit"}


@pytest.mark.parametrize(
    "given",
    [
        rule("stop"),
        rule("disconnect"),
        rule("disconnect", network="site-jfk"),
        rule("cpu_limit", cpus=0.25),
        rule("memory_limit", megabytes=64),
    ],
    ids=lambda given: given.actions[0].fault,
)
def test_rule_when_container_and_parameters_are_right_then_has_no_problem(given: Rule) -> None:
    assert problems(given, WORLD) == []


def test_rule_when_there_is_no_such_container_then_those_there_are_are_named() -> None:
    error = only_problem(rule("stop", "towpath-jkf"))
    assert error.field == "event.name"
    assert error.allowed == ["towpath-jfk", "towpath-lga"]


def test_rule_when_the_container_is_not_on_the_network_then_its_networks_are_named() -> None:
    error = only_problem(rule("disconnect", network="site-jkf"))
    assert error.field == "actions.0.parameters.network"
    assert error.allowed == ["services", "site-jfk"]
    assert "did you mean 'site-jfk'?" in error.one_line()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (rule("cpu_limit"), "cpus"),
        (rule("cpu_limit", cpus=0), "cpus"),
        (rule("memory_limit", megabytes=5), "megabytes"),
        (rule("stop", grace_s=-1), "grace_s"),
        (rule("disconnect", networks="site-jfk"), "networks"),
    ],
    ids=["no cpus", "none", "too little", "negative", "misspelt"],
)
def test_rule_when_a_parameter_is_wrong_then_it_is_named(given: Rule, field: str) -> None:
    assert only_problem(given).field == f"actions.0.parameters.{field}"


def test_rule_when_no_container_daemon_answers_then_the_problem_is_how_to_get_one() -> None:
    world = World(without_daemon=NoDaemon("unix:///missing.sock", "No such file or directory").detail)
    error = only_problem(rule("stop"), world)
    assert error.field == "event.target"
    assert "unix:///missing.sock" in error.message
    assert "start one" in error.message


def test_rule_when_there_is_no_daemon_and_it_is_about_something_else_then_has_no_problem() -> None:
    world = replace(WORLD, without_daemon=NoDaemon("unix:///missing.sock", "gone").detail)
    about_machine = rule("cpu_load").model_dump()
    about_machine["event"] = {"target": "machine", "name": "hub"}
    assert problems(Rule.model_validate(about_machine), world) == []


def test_rule_when_it_would_cut_off_the_injector_that_renews_it_then_is_refused() -> None:
    world = replace(WORLD, own_container="towpath-jfk")
    error = only_problem(rule("disconnect"), world)
    assert error.code is ErrorCode.NOT_ALLOWED
    assert error.field == "actions.0.fault"
    assert problems(rule("stop"), world) == []
    at_site = rule("disconnect").model_copy(update={"where": Where(site="jfk")})
    assert problems(at_site, replace(world, sites=frozenset({"jfk"}))) == []


def test_explanation_when_a_container_is_disconnected_then_says_from_what_and_that_it_comes_back() -> None:
    text = explain(rule("disconnect", network="site-jfk"), WORLD)
    assert "for the container towpath-jfk" in text
    assert 'network = "site-jfk"' in text
    assert "puts it back" in text
