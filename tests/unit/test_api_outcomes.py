"""Answers to a client: the waiting time for changes, and the HTTP status of each error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest
from api_trial import Trial, running_api

from running import waiting
from towpath.api.coordinator import Coordinator
from towpath.api.handlers.jobs import merge
from towpath.artefacts.entry_check import WITHIN_S
from towpath.contracts.autopilot import AnnounceWindow
from towpath.contracts.commands import (
    DeployJob,
    ListSites,
    MigrateJob,
    OperationAnswer,
    OperationKind,
    OperationState,
    OperationView,
    ShowOperation,
    SiteList,
)
from towpath.contracts.errors import RETRYABLE, ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.fault_commands import ExplainRule, LoadRules
from towpath.contracts.job import EXAMPLE_SPEC
from towpath.contracts.message import Command, now
from towpath.contracts.pipeline import (
    EXAMPLE_PIPELINE,
    Action,
    ApplyState,
    ApplyView,
    ChangeState,
    ChangeView,
    PipelineSpec,
    PipelineView,
    PlannedChange,
)
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    PlanPipeline,
    RollbackPipeline,
    ShowPipeline,
)
from towpath.contracts.plan_commands import ApplyPlan, UpdatePlan
from towpath.contracts.rest import STATUS, Route
from towpath.contracts.rest_query_routes import EXAMPLE_QUERIES
from towpath.contracts.rest_routes import ROUTES
from towpath.contracts.site import SiteState, SiteStatus

WAIT = {"Prefer": "wait=20"}
ASKING = [route for route in ROUTES if route.command is not None]


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    async with running_api() as started:
        yield started


def operation(state: OperationState, note: str = "") -> Callable[[Any], OperationAnswer]:
    return lambda command: OperationAnswer(
        operation="op1", job="hourly-jfk", kind=OperationKind.DEPLOY, state=state, note=note
    )


def shown(states: Iterator[OperationState], note: str = "") -> Callable[[Any], OperationView]:
    return lambda command: OperationView(
        operation=command.operation, kind=OperationKind.DEPLOY, job="hourly-jfk", state=next(states),
        begun_at=now(), note=note,
    )  # fmt: skip


def apply(state: ApplyState, *, version: int = 1, error: ErrorDetail | None = None) -> ApplyView:
    change = PlannedChange(job="hourly-jfk", actions=[Action.ADD], reason="new")
    done = ChangeState.FAILED if error else ChangeState.COMPLETED
    return ApplyView(
        apply="a1",
        pipeline="delays",
        version=version,
        state=state,
        begun_at=now(),
        changes=[ChangeView(change=change, state=done, error=error)],
    )


def pipeline(view: ApplyView) -> PipelineView:
    spec = PipelineSpec.model_validate(EXAMPLE_PIPELINE)
    return PipelineView(pipeline="delays", version=view.version, spec=spec, apply=view)


async def test_change_when_its_end_is_waited_for_then_is_created(trial: Trial) -> None:
    states = iter([OperationState.RUNNING, OperationState.COMPLETED])
    trial.coordinator.answers = {
        DeployJob: operation(OperationState.RUNNING),
        ShowOperation: shown(states),
    }
    response, body = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC, headers=WAIT)
    assert (response.status, response.headers["Location"]) == (201, "/jobs/hourly-jfk")
    assert (response.headers["Preference-Applied"], body["state"]) == ("wait=20", "completed")


async def test_change_when_it_is_undone_while_waited_for_then_is_no_success(trial: Trial) -> None:
    trial.coordinator.answers = {
        DeployJob: operation(OperationState.RUNNING),
        ShowOperation: shown(iter([OperationState.ROLLED_BACK]), "jfk refuses the code"),
    }
    response, problem = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC, headers=WAIT)
    assert (response.status, problem["code"]) == (409, "failed")
    assert "jfk refuses the code" in problem["detail"]


async def test_change_when_the_wait_is_over_then_can_be_followed(trial: Trial) -> None:
    def still_running(command: ShowOperation) -> OperationView:
        return shown(iter([OperationState.RUNNING]))(command)

    trial.coordinator.answers = {
        DeployJob: operation(OperationState.RUNNING),
        ShowOperation: still_running,
    }
    async with asyncio.timeout(waiting.WITHIN_S):
        response, _ = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC, headers={"Prefer": "wait=1"})
    assert (response.status, response.headers["Location"]) == (202, "/operations/op1")


@pytest.mark.parametrize("prefer", ["respond-async", "wait=soon", "wait", "handling=lenient, foo"])
async def test_preference_when_not_understood_then_is_passed_over(trial: Trial, prefer: str) -> None:
    trial.coordinator.answers = {DeployJob: operation(OperationState.RUNNING)}
    response, _ = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC, headers={"Prefer": prefer})
    assert (response.status, len(trial.coordinator.asked)) == (202, 1)
    assert "Preference-Applied" not in response.headers


async def test_change_when_there_is_nothing_to_do_then_nothing_is_created(trial: Trial) -> None:
    trial.coordinator.answers[DeployJob] = lambda command: OperationAnswer(
        operation=command.id, job="hourly-jfk", kind=OperationKind.DEPLOY, state=OperationState.COMPLETED
    )
    response, _ = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC)
    assert response.status == 200
    assert "Location" not in response.headers


async def test_pipeline_when_removed_and_waited_for_then_is_done_when_it_is_gone(trial: Trial) -> None:
    def gone(command: ShowPipeline) -> PipelineView:
        raise TowpathError(ErrorCode.UNKNOWN_PIPELINE, "no such pipeline", field="pipeline")

    trial.coordinator.answers = {DeletePipeline: lambda _: apply(ApplyState.RUNNING), ShowPipeline: gone}
    response, body = await trial.send("DELETE", "/pipelines/delays?now=true", headers=WAIT)
    assert (response.status, body["state"]) == (200, "completed")
    assert trial.coordinator.asked[0].now  # type: ignore[attr-defined]


async def test_pipeline_when_applied_and_a_job_fails_then_its_error_is_told(trial: Trial) -> None:
    error = ErrorDetail(code=ErrorCode.SITE_DOWN, message="site jfk is down")
    failed = pipeline(apply(ApplyState.FAILED, error=error))
    trial.coordinator.answers = {
        RollbackPipeline: lambda _: apply(ApplyState.RUNNING),
        ShowPipeline: lambda _: failed,
    }
    response, problem = await trial.send(
        "POST", "/pipelines/delays/rollback", json={"version": 3, "at_once": 2}, headers=WAIT
    )
    assert (response.status, problem["errors"][0]["code"]) == (409, "site_down")
    command = trial.coordinator.asked[0]
    assert isinstance(command, RollbackPipeline)
    assert (command.pipeline, command.version, command.at_once) == ("delays", 3, 2)


async def test_rollback_when_it_has_no_body_then_takes_what_is_usual(trial: Trial) -> None:
    trial.coordinator.answers[RollbackPipeline] = lambda _: apply(ApplyState.RUNNING)
    response, _ = await trial.send("POST", "/pipelines/delays/rollback")
    assert (response.status, response.headers["Location"]) == (202, "/pipelines/delays")
    assert trial.coordinator.newest().version is None


@pytest.mark.parametrize(("version", "status"), [(1, 201), (2, 200)], ids=["new", "another version"])
async def test_pipeline_when_put_then_is_created_once(trial: Trial, version: int, status: int) -> None:
    trial.coordinator.answers = {
        ListSites: lambda _: SiteList(sites=[]),
        ApplyPipeline: lambda _: apply(ApplyState.COMPLETED, version=version),
    }
    response, _ = await trial.send(
        "PUT", "/pipelines/delays?at_once=9&drop_state=a&drop_state=b", json=EXAMPLE_PIPELINE
    )
    assert response.status == status
    command = trial.coordinator.newest()
    assert command.spec == PipelineSpec.model_validate(EXAMPLE_PIPELINE)
    assert (command.at_once, command.drop_state) == (9, ["a", "b"])


SPECK = """\
jobs:
- job_name: late
  spe_address: jfk
  source_broker: jfk
  sink_broker: jfk
  source_topic: departures
  sink_topic: late
  entry_class: delays:late
  job_path: delays.zip
"""


async def test_pipeline_when_its_document_is_speck_s_then_errors_name_its_fields(trial: Trial) -> None:
    def refuse(command: ApplyPipeline) -> ApplyView:
        wrong = ErrorDetail(code=ErrorCode.NAME_IN_USE, message="in use", field="jobs[0].output.topic")
        raise TowpathError(ErrorCode.INVALID, "1 error", errors=[wrong])

    jfk = SiteStatus(site="jfk", state=SiteState.UP, nats_url="nats://a:1", mqtt_host="a", mqtt_port=2)
    trial.coordinator.answers = {ListSites: lambda _: SiteList(sites=[jfk]), ApplyPipeline: refuse}
    response, problem = await trial.send(
        "PUT", "/pipelines/delays", data=SPECK, headers={"Content-Type": "application/yaml"}
    )
    assert (response.status, problem["errors"][0]["field"]) == (422, "jobs[0].sink_topic")
    assert trial.coordinator.newest().spec.jobs[0].name == "late"


@pytest.mark.parametrize(
    ("document", "content_type", "status"),
    [
        ("jobs: [", "application/yaml", 400),
        ('{"jobs": [}', "application/json", 400),
        ('{"jobs": [{"name": "late"}]}', "application/json", 422),
        ('{"name": "other", "jobs": []}', "application/json", 422),
        ("jobs: []", "text/yaml", 415),
    ],
    ids=["half YAML", "half JSON", "a job without site", "another name", "another type"],
)
async def test_pipeline_when_its_document_is_none_or_wrong_then_is_not_applied(
    trial: Trial, document: str, content_type: str, status: int
) -> None:
    trial.coordinator.answers = {ListSites: lambda _: SiteList(sites=[])}
    headers = {"Content-Type": content_type}
    response, problem = await trial.send("PUT", "/pipelines/delays", data=document, headers=headers)
    assert (response.status, problem["code"]) == (status, "invalid")
    assert (status == 422) == bool(problem["errors"])


def body_for(route: Route) -> dict[str, Any]:
    bodies: dict[str, Any] = {
        "deployJob": EXAMPLE_SPEC,
        "updateJob": {"trigger_s": 3},
        "resumeFrom": {"start": "now"},
        "migrateJob": {"to": "cloud"},
        "applyPipeline": EXAMPLE_PIPELINE,
        "planPipeline": EXAMPLE_PIPELINE,
        "loadRules": {"rules": LoadRules.example["rules"]},
        "explainRule": ExplainRule.example["rule"],
        "runQueries": EXAMPLE_QUERIES,
        "announceWindow": {name: value for name, value in AnnounceWindow.example.items() if name != "id"},
        "applyPlan": {name: ApplyPlan.example[name] for name in ("plan", "catalogue")},
        "sendBroadcast": {"topic": "lamps/all", "payload": "off"},
        "updatePlan": {name: UpdatePlan.example[name] for name in ("operation", "arguments")},
    }
    return {"json": bodies[route.name]} if route.name in bodies else {}


@pytest.mark.parametrize("route", ASKING, ids=lambda route: route.name)
async def test_route_when_it_meets_any_error_then_the_status_is_one_it_announces(
    trial: Trial, route: Route
) -> None:
    path = route.path.format(name="delays", id="op1")
    of_job = "job" in route.path_fields.values()
    for code in ErrorCode:
        trial.coordinator.failure = TowpathError(code, "no", field="job", value="x", allowed=["y"])
        response, problem = await trial.send(route.method, path, **body_for(route))
        expected = 404 if code is route.addressed else STATUS[code]
        assert response.status == (expected if expected in route.errors else 500)
        assert response.status in route.errors
        assert (response.content_type, problem["code"]) == ("application/problem+json", code)
        named = "name" if code is route.addressed and of_job else "job"
        assert (problem["field"], problem["value"], problem["allowed"]) == (named, "x", ["y"])
        assert ("Retry-After" in response.headers) == (code in RETRYABLE)


async def test_error_when_it_is_about_the_body_then_is_not_404(trial: Trial) -> None:
    def refuse(command: Command[Any]) -> OperationAnswer:
        raise TowpathError(ErrorCode.UNKNOWN_SITE, "no such site", field="to", value="mars", allowed=["jfk"])

    trial.coordinator.answers[MigrateJob] = refuse
    response, problem = await trial.send("POST", "/jobs/mars/migrations", json={"to": "mars"})
    assert (response.status, problem["field"], problem["allowed"]) == (422, "to", ["jfk"])
    assert problem["type"] == "urn:towpath:error:unknown_site"


async def test_service_when_it_fails_itself_then_answers_with_a_problem(trial: Trial) -> None:
    def fail(command: Command[Any]) -> OperationAnswer:
        raise RuntimeError("out of paper")

    trial.coordinator.answers[DeployJob] = fail
    response, problem = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC)
    assert (response.status, problem["code"]) == (500, "failed")


@pytest.mark.parametrize(
    ("target", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_when_applied_then_is_as_in_rfc_7396(target: Any, patch: Any, merged: Any) -> None:
    assert merge(target, patch) == merged


async def test_description_when_its_user_code_is_tried_then_is_waited_for_longer_than_other_answers() -> None:
    given: list[float] = []

    class Patient:
        async def request(self, command: Command[Any], *, deadline_s: float, attempt_s: float) -> None:
            given.append(deadline_s)

    coordinator = Coordinator(cast("Any", Patient()))
    spec = PipelineSpec.model_validate(EXAMPLE_PIPELINE)
    for command in (ListSites(), PlanPipeline(spec=spec), ApplyPipeline(spec=spec)):
        await coordinator.ask(command)
    usual, plan, apply = given
    assert plan == apply > 2 * WITHIN_S > usual
