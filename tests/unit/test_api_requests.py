"""One route is one command: requests are read, and wrong ones refused before a command is sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from api_trial import Trial, running_api

from towpath.api import failed_logins
from towpath.contracts.commands import (
    AbortMigration,
    DeployJob,
    ForecastMigration,
    JobList,
    JobView,
    ListJobs,
    ListOperations,
    MigrateJob,
    MigrationForecast,
    OperationAnswer,
    OperationKind,
    OperationList,
    OperationState,
    RemoveJob,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, ResolvedOutput
from towpath.contracts.rest import MAX_BODY_BYTES
from towpath.contracts.rest_routes import ROUTES

SPEC = JobSpec.model_validate(EXAMPLE_SPEC)
MOVE = "/jobs/hourly-jfk/migrations"


def accepted(kind: OperationKind, state: OperationState = OperationState.RUNNING) -> Any:
    return lambda command: OperationAnswer(operation="op1", job="hourly-jfk", kind=kind, state=state)


def view(operation: str | None = None) -> JobView:
    return JobView(
        spec=SPEC,
        site="jfk",
        output=ResolvedOutput(site="jfk", stream="OUT_hourly-jfk", topic="a", rejected_topic="a/rejected"),
        epoch=1,
        state=None,
        operation=operation,
        status=None,
    )


@pytest.fixture
async def trial() -> AsyncIterator[Trial]:
    async with running_api() as started:
        started.coordinator.answers = {
            DeployJob: accepted(OperationKind.DEPLOY),
            UpdateJob: accepted(OperationKind.UPDATE),
            RemoveJob: accepted(OperationKind.REMOVE),
            MigrateJob: accepted(OperationKind.MIGRATE),
            AbortMigration: accepted(OperationKind.MIGRATE, OperationState.ROLLED_BACK),
            ListJobs: lambda _: JobList(jobs=[view()]),
            ListOperations: lambda _: OperationList(operations=[]),
            ForecastMigration: lambda command: MigrationForecast(
                job=command.job, source="jfk", target=command.to, strategy=StrategyName.GENERAL,
                reason="it carries state", total_s=2.5, state_bytes=10, basis="a plain machine",
            ),
        }  # fmt: skip
        yield started


async def test_job_when_posted_then_is_deployed_and_followed_at_its_operation(trial: Trial) -> None:
    response, body = await trial.send("POST", "/jobs", json=EXAMPLE_SPEC)
    assert (response.status, response.headers["Location"]) == (202, "/operations/op1")
    assert body["state"] == "running"
    command = trial.coordinator.newest()
    assert (type(command), command.spec, command.wait) == (DeployJob, SPEC, False)


async def test_job_when_shown_then_is_the_one_of_that_name_and_else_404(trial: Trial) -> None:
    response, body = await trial.send("GET", "/jobs/hourly-jfk")
    assert (response.status, body["spec"]["name"]) == (200, "hourly-jfk")
    response, problem = await trial.send("GET", "/jobs/nightly")
    assert (response.status, problem["code"], problem["allowed"]) == (404, "unknown_job", ["hourly-jfk"])


async def test_job_when_removed_then_query_says_how(trial: Trial) -> None:
    await trial.send("DELETE", "/jobs/hourly-jfk?purge=true&drain=true")
    command = trial.coordinator.newest()
    assert (command.job, command.purge, command.drain) == ("hourly-jfk", True, True)
    await trial.send("DELETE", "/jobs/hourly-jfk")
    assert (trial.coordinator.newest().purge, trial.coordinator.newest().drain) == (False, False)


async def test_patch_when_it_says_a_part_then_the_rest_of_the_specification_stays(trial: Trial) -> None:
    patch = {"trigger_s": 5, "operator": {"aggregates": {"mean_delay": None}}}
    response, _ = await trial.send("PATCH", "/jobs/hourly-jfk?drop_state=true", json=patch)
    assert (response.status, response.headers["Location"]) == (202, "/operations/op1")
    command = trial.coordinator.newest()
    assert isinstance(command, UpdateJob)
    assert command.drop_state
    assert command.spec.trigger_s == 5
    assert command.spec.inputs == SPEC.inputs
    assert list(command.spec.operator.aggregates) == ["departures", "p95_delay"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("patch", "field"),
    [({"name": "other"}, "name"), ({"inputs": None}, "inputs"), ({"speed": 1}, "speed"), ([], None)],
    ids=["another name", "what must be there taken away", "unknown field", "no object"],
)
async def test_patch_when_it_makes_no_valid_job_then_is_refused_and_nothing_asked(
    trial: Trial, patch: Any, field: str | None
) -> None:
    response, problem = await trial.send("PATCH", "/jobs/hourly-jfk", json=patch)
    assert (response.status, problem["code"], problem.get("field")) == (422, "invalid", field)
    assert not any(isinstance(command, UpdateJob) for command in trial.coordinator.asked)


async def test_patch_when_the_job_is_just_changing_then_is_refused_unless_it_may_be_a_repetition(
    trial: Trial,
) -> None:
    trial.coordinator.answers[ListJobs] = lambda _: JobList(jobs=[view(operation="op7")])
    response, problem = await trial.send("PATCH", "/jobs/hourly-jfk", json={"trigger_s": 5})
    assert (response.status, problem["code"]) == (409, "busy")
    assert "op7" in problem["detail"]
    response, _ = await trial.send(
        "PATCH", "/jobs/hourly-jfk", json={"trigger_s": 5}, headers={"Idempotency-Key": "k1"}
    )
    assert (response.status, trial.coordinator.newest().id) == (202, "k1")


async def test_migration_when_posted_then_moves_the_job_and_is_followed_as_migration(trial: Trial) -> None:
    body = {"to": "cloud", "strategy": "parallel", "check": "results", "factor": 5}
    response, _ = await trial.send("POST", MOVE, json=body)
    assert (response.status, response.headers["Location"]) == (202, "/migrations/op1")
    command = trial.coordinator.newest()
    assert isinstance(command, MigrateJob)
    assert command.model_dump(mode="json", include=set(body)) == body
    assert command.job == "hourly-jfk"


async def test_migration_when_only_tried_then_is_forecast(trial: Trial) -> None:
    response, body = await trial.send("POST", f"{MOVE}?dry_run=true", json={"to": "cloud"})
    assert (response.status, body["strategy"], body["total_s"]) == (200, "general", 2.5)
    assert [type(command) for command in trial.coordinator.asked] == [ForecastMigration]


async def test_migration_when_only_tried_then_its_comparison_is_forecast_too(trial: Trial) -> None:
    body = {"to": "cloud", "strategy": "parallel", "check": "results", "factor": 5}
    await trial.send("POST", f"{MOVE}?dry_run=true", json=body)
    assert trial.coordinator.newest().model_dump(mode="json", include=set(body)) == body


async def test_migrations_when_listed_then_only_those_are_asked_for(trial: Trial) -> None:
    response, body = await trial.send("GET", "/migrations?limit=7")
    assert (response.status, body) == (200, {"operations": []})
    assert (trial.coordinator.newest().kind, trial.coordinator.newest().limit) == ("migrate", 7)


async def test_abort_when_rolled_back_already_then_is_done(trial: Trial) -> None:
    response, body = await trial.send("DELETE", "/migrations/op1")
    assert (response.status, body["state"]) == (200, "rolled_back")


@pytest.mark.parametrize("key", ["9b2e-77", '"9b2e-77"'], ids=["bare", "quoted"])
async def test_request_when_it_has_a_key_then_the_command_has_its_identifier(trial: Trial, key: str) -> None:
    await trial.send("POST", "/jobs", json=EXAMPLE_SPEC, headers={"Idempotency-Key": key})
    assert trial.coordinator.newest().id == "9b2e-77"


async def test_request_when_its_key_is_unreadable_then_is_refused(trial: Trial) -> None:
    response, problem = await trial.send(
        "POST", "/jobs", json=EXAMPLE_SPEC, headers={"Idempotency-Key": "a b"}
    )
    assert (response.status, problem["field"]) == (400, "Idempotency-Key")
    assert trial.coordinator.asked == []


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/jobs/hourly-jfk?purge=yes", "purge"),
        ("/jobs/hourly-jfk?purge=1", "purge"),
        ("/jobs/hourly-jfk?purge=true&purge=true", "purge"),
        ("/jobs/hourly-jfk?forced=true", "forced"),
        ("/jobs/Hourly", "name"),
        ("/jobs/%ED%A0%80", "name"),
        ("/migrations/a%20b", "id"),
    ],
)
async def test_parameter_when_not_of_its_form_then_is_named_and_no_one_asked(
    trial: Trial, path: str, field: str
) -> None:
    response, problem = await trial.send("DELETE", path)
    assert (response.status, problem["code"], problem["field"]) == (422, "invalid", field)
    assert trial.coordinator.asked == []


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"to": NaN}', "application/json", 400),
        (b'{"to": "\xff"}', "application/json", 400),
        (b"", "application/json", 400),
        (b"to: cloud", "application/yaml", 415),
        (b'{"to": "cloud"}', "", 415),
        (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
        (b'{"to": "Cloud"}', "application/json", 422),
        (b'{"to": "cloud", "factor": "10"}', "application/json", 422),
        (b"[]", "application/json", 422),
    ],
    ids=["half", "NaN", "not UTF-8", "empty", "YAML", "no type", "too large", "no name", "text for a number",
         "list"],
)  # fmt: skip
async def test_body_when_not_readable_or_not_valid_then_is_refused_and_no_one_asked(
    trial: Trial, body: bytes, content_type: str, status: int
) -> None:
    response, problem = await trial.send("POST", MOVE, data=body, headers={"Content-Type": content_type})
    assert (response.status, problem["status"]) == (status, status)
    assert response.content_type == "application/problem+json"
    assert trial.coordinator.asked == []


async def test_body_when_it_says_its_alphabet_then_is_read_all_the_same(trial: Trial) -> None:
    text = json.dumps({"to": "cloud"})
    response, _ = await trial.send(
        "POST", MOVE, data=text, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert response.status == 202


@pytest.mark.parametrize("token", [None, "Bearer", "Bearer wrong", "Basic t0ken", "t0ken", "Bearer t0ken2"])
async def test_request_when_it_lacks_the_token_then_is_refused_wherever_it_goes(
    trial: Trial, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_logins, "FIRST_DELAY_S", 0.0)
    headers = {} if token is None else {"Authorization": token}
    for method, path in [("GET", "/jobs"), ("DELETE", "/jobs/x"), ("GET", "/events"), ("GET", "/nowhere")]:
        async with trial.client.request(method, path, headers=headers) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
            assert (await response.json(content_type=None))["code"] == "unauthorised"
    assert trial.coordinator.asked == []


@pytest.mark.parametrize("path", ["/health", "/openapi.json"])
async def test_public_path_when_asked_without_token_then_answers(trial: Trial, path: str) -> None:
    async with trial.client.get(path) as response:
        assert (response.status, response.content_type) == (200, "application/json")


async def test_health_when_the_hub_is_away_then_says_so(trial: Trial) -> None:
    trial.coordinator.connection.is_connected = False
    async with trial.client.get("/health") as response:
        assert (response.status, response.headers["Retry-After"]) == (503, "2")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/*", 200),
        ("text/html", 406),
        ("*/*, application/json;q=0", 406),
    ],
)
async def test_client_when_it_takes_no_json_then_is_told_what_there_is(
    trial: Trial, accept: str, status: int
) -> None:
    response, body = await trial.send("GET", "/jobs", headers={"Accept": accept})
    assert response.status == status
    if status == 406:
        assert body["allowed"] == ["application/json"]


async def test_path_or_method_when_there_is_none_then_is_a_problem_too(trial: Trial) -> None:
    response, problem = await trial.send("GET", "/nowhere")
    assert (response.status, problem["code"]) == (404, "unknown_command")
    response, problem = await trial.send("PUT", "/jobs")
    assert (response.status, response.headers["Allow"]) == (405, "GET, POST")
    assert problem["allowed"] == ["GET", "POST"]


def test_table_when_read_then_each_route_and_name_is_there_once() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/broadcasts", {"topic": "lamps/all", "payload": "off", "base64": True}),
        (
            "/autopilot/windows",
            {"site": "jfk", "begins": "2026-01-01T00:00:00Z", "ends": "2026-01-01T00:00:00Z"},
        ),
        (
            "/autopilot/windows",
            {
                "site": "jfk",
                "cause": "price",
                "begins": "2026-01-01T00:00:00Z",
                "ends": "2026-01-01T01:00:00Z",
            },
        ),
    ],
    ids=["no-base64", "ends-as-it-begins", "price-without-factor"],
)
async def test_request_when_its_fields_do_not_suit_each_other_then_is_refused_as_invalid(
    trial: Trial, path: str, body: dict[str, Any]
) -> None:
    response, problem = await trial.send("POST", path, json=body)
    assert (response.status, problem["code"]) == (422, "invalid")
