"""Deployment plans: operations that deploy, update and uninstall jobs, as pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from towpath.composition.deployment_plan import import_plan, plan_name
from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import Filter, Python
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.site import SiteState, SiteStatus

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"

LATE: dict[str, Any] = {
    "task": "deploy",
    "operation": "late",
    "runs_on": "jfk",
    "executes": {"kind": "filter", "fields": {"delay": "double"}, "where": "delay > 15"},
    "reads_from": [{"site": "jfk", "topic": "site/departures"}],
    "writes_to": {"topic": "departures/late"},
}


def plan(*operations: dict[str, Any]) -> str:
    return json.dumps({"plan": "delays", "operations": operations})


def imported(*operations: dict[str, Any], current: PipelineSpec | None = None) -> PipelineSpec:
    return import_plan(plan(*operations), current, [])


def places(text: str, current: PipelineSpec | None = None, name: str | None = None) -> list[str | None]:
    with pytest.raises(TowpathError) as refused:
        import_plan(text, current, [], name=name)
    return [error.field for error in refused.value.detail.errors]


CURRENT = imported(LATE)


def test_plan_when_it_deploys_then_relations_become_a_job() -> None:
    (job,) = CURRENT.jobs
    assert (CURRENT.name, job.name, job.site) == ("delays", "late", "jfk")
    assert (job.inputs[0].name, job.output.topic) == ("jfk/site/departures", "departures/late")
    assert isinstance(job.operator, Filter)


def test_plan_when_it_executes_a_function_then_is_user_code_and_one_stream_needs_no_list() -> None:
    (job,) = imported({**LATE, "executes": "delays.late:only", "reads_from": LATE["reads_from"][0]}).jobs
    assert isinstance(job.operator, Python)
    assert job.operator.entry == "delays.late:only"
    assert len(job.inputs) == 1


def test_plan_when_it_updates_then_only_what_it_names_is_replaced() -> None:
    (job,) = imported({"task": "update", "operation": "late", "runs_on": "cloud"}, current=CURRENT).jobs
    (old,) = CURRENT.jobs
    assert (job.site, job.output.site) == ("cloud", "jfk")
    assert (job.inputs, job.operator, job.output.topic) == (old.inputs, old.operator, old.output.topic)


def test_plan_when_the_pipeline_has_a_policy_then_keeps_it() -> None:
    current = PipelineSpec.model_validate({**CURRENT.model_dump(), "policy": "energy"})
    assert imported({"task": "uninstall", "operation": "late"}, current=current).policy == "energy"


def test_plan_when_it_uninstalls_then_the_job_is_gone() -> None:
    assert imported({"task": "uninstall", "operation": "late"}, current=CURRENT).jobs == []


def test_plan_when_it_names_addresses_then_they_are_sites() -> None:
    edge = SiteStatus(
        site="edge", state=SiteState.UP, nats_url="nats://10.0.0.1:4222", mqtt_host="10.0.0.1", mqtt_port=1883
    )
    reads = {"site": "10.0.0.1", "topic": "site/x"}
    text = plan({**LATE, "runs_on": "10.0.0.1:4222", "reads_from": reads, "writes_to": {"topic": "t"}})
    (job,) = import_plan(text, None, [edge]).jobs
    assert (job.site, job.inputs[0].site) == ("edge", "edge")
    with pytest.raises(TowpathError) as refused:
        import_plan(plan({**LATE, "runs_on": "10.0.0.2:1"}), None, [edge])
    found = [error.field for error in refused.value.detail.errors]
    assert found == ["operations[0].runs_on", "operations[0].reads_from[0].site"]


def test_plan_when_much_is_wrong_then_all_is_told_in_its_own_words() -> None:
    text = plan(
        LATE,
        LATE,
        {"task": "update", "operation": "missing", "runs_on": "jfk"},
        {"task": "deploy", "operation": "more", "runs_on": "jfk"},
        {**LATE, "operation": "bad", "executes": {"kind": "filter", "where": "x"}, "runs_on": "The Moon"},
        {**LATE, "operation": "worse", "reads_from": [{"site": "jfk", "topic": "a b"}]},
    )
    assert places(text) == [
        "operations[1].operation",
        "operations[2].operation",
        "operations[3].executes",
        "operations[3].reads_from",
        "operations[3].writes_to",
        "operations[4].runs_on",
        "operations[5].reads_from[0].topic",
    ]
    assert places(plan(LATE), CURRENT) == ["operations[0].task"]
    gone = {"task": "uninstall", "operation": "late", "runs_on": "jfk"}
    assert places(plan(gone), CURRENT) == ["operations[0].runs_on"]


def test_plan_when_it_is_of_another_form_then_its_place_is_told() -> None:
    assert places('{"operations": [{"task": "move", "operation": "a"}]}') == ["operations[0].task"]
    assert places('{"operations": []}') == ["plan"]
    assert places('{"plan": "x"}') == ["operations"]
    with pytest.raises(TowpathError, match="line 1, column 2"):
        import_plan("{", None, [])


def test_plan_when_it_has_a_name_then_that_gives_way_to_the_pipelines() -> None:
    text = plan(LATE)
    assert plan_name(text) == "delays"
    assert import_plan(text, None, [], name="other").name == "other"
    empty = PipelineSpec(name="mine", jobs=[])
    assert import_plan(text, empty, []).name == "mine"


def test_examples_when_carried_out_one_after_the_other_then_each_finds_what_it_concerns() -> None:
    spec = import_plan((EXAMPLES / "plan-deploy.json").read_text(), None, [])
    assert [job.name for job in spec.jobs] == ["departed-now", "late-now"]
    spec = import_plan((EXAMPLES / "plan-update.json").read_text(), spec, [])
    assert [(job.name, job.site) for job in spec.jobs] == [
        ("departed-now", "jfk"),
        ("late-now", "cloud"),
        ("carriers-now", "cloud"),
    ]
    spec = import_plan((EXAMPLES / "plan-uninstall.json").read_text(), spec, [])
    assert [job.name for job in spec.jobs] == ["departed-now", "late-now"]
