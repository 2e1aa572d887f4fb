"""The OpenAPI document is valid and agrees with the table of routes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from towpath.contracts.export.__main__ import CONTRACTS
from towpath.contracts.message import Model
from towpath.contracts.pipeline import EXAMPLE_PIPELINE
from towpath.contracts.rest import MEANINGS, PROBLEM, STATUS, Problem, Route
from towpath.contracts.rest_routes import ROUTES

EACH_ROUTE = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)


def exported() -> dict[str, Any]:
    return json.loads((CONTRACTS / "openapi.json").read_text())


def operation_of(route: Route) -> dict[str, Any]:
    return exported()["paths"][route.path][route.method.lower()]


def is_valid(schema: dict[str, Any], content: Any) -> bool:
    whole = {**schema, "components": exported()["components"]}
    return Draft202012Validator(whole).is_valid(content)


def test_document_when_judged_by_openapi_3_1_then_is_valid() -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(exported()).iter_errors()] == []


def test_judgement_when_a_path_parameter_is_not_described_then_finds_it() -> None:
    document = exported()
    del document["paths"]["/jobs/{name}"]["get"]["parameters"]
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) != []


@EACH_ROUTE
def test_route_when_described_then_announces_its_statuses_and_problems(route: Route) -> None:
    responses = operation_of(route)["responses"]
    assert set(responses) == {str(status) for status in route.statuses}
    for status in route.errors:
        assert list(responses[str(status)]["content"]) == [PROBLEM]
        assert responses[str(status)]["description"] == MEANINGS[status]


@EACH_ROUTE
def test_route_when_it_is_a_command_then_path_query_and_body_make_all_its_fields(route: Route) -> None:
    computed = ("showJob", "applyPipeline", "planPipeline", "updateJob", "runQueries", "removeQueries")
    if route.command is None or route.name in computed:
        pytest.skip("the handler computes a field from several parts of the request")
    given = set(route.path_fields.values()) | set(route.fixed)
    given |= set(route.query.model_fields) if route.query else set()
    if route.body is not None:
        given |= {route.body.field} if route.body.field else set(route.body.model.model_fields)
    needed = {name for name, field in route.command.model_fields.items() if field.is_required()}
    known = set(route.command.model_fields) | ({"dry_run"} if route.dry_run else set())
    assert needed <= given <= known


@EACH_ROUTE
def test_route_when_not_public_then_names_the_role_that_a_token_needs(route: Route) -> None:
    needed = [] if route.role is None else [{"token": [route.role.value]}]
    assert operation_of(route)["security"] == needed
    assert (401 in route.errors) != route.public


def test_pipeline_when_described_as_document_then_its_schema_takes_it() -> None:
    put = exported()["paths"]["/pipelines/{name}"]["put"]["requestBody"]
    for media_type in ("application/json", "application/yaml"):
        assert is_valid(put["content"][media_type]["schema"], EXAMPLE_PIPELINE)


@pytest.mark.parametrize("code", STATUS)
def test_problem_when_made_of_any_error_then_its_schema_takes_it(code: str) -> None:
    schema = {"$ref": "#/components/schemas/Problem"}
    problem: Model = Problem(type="urn:x", title="no", status=422, detail="no", code=code)  # type: ignore[arg-type]
    content = json.loads(problem.model_dump_json(exclude_none=True))
    assert is_valid(schema, content)
    assert not is_valid(schema, {**content, "code": "out_of_paper"})
