"""The OpenAPI 3.1 document of the REST interface, made from its table of routes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from towpath.contracts.message import NAME_PATTERN, ROOT, Identifier
from towpath.contracts.rest import (
    EVENT_STREAM,
    IDEMPOTENCY_KEY_PATTERN,
    JSON,
    LARGEST_SERIAL,
    MAX_WAIT_S,
    MEANINGS,
    PROBLEM,
    Body,
    Problem,
    Route,
)
from towpath.contracts.rest_routes import ROUTES

PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": NAME_PATTERN},
    "id": {"type": "string", "pattern": Identifier.__metadata__[0].pattern},  # type: ignore[attr-defined]
}
RETRIED = frozenset({409, 429, 503, 504})
"""Statuses whose answer may say when to try again."""

Schemas = dict[Any, dict[str, Any]]
"""Model → reference to its schema."""


def openapi(routes: Sequence[Route] = ROUTES) -> dict[str, Any]:
    """The document."""
    references, definitions = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, references)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Towpath",
            "version": ROOT.rsplit(".v", 1)[-1] + ".0.0",
            "description": "Jobs, migrations and pipelines. Each operation is one command of `REFERENCE.md`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The owner's token, as `towpath access` shows it, or one that `towpath "
                    "token add` has made. Its role must include the one that an operation names.",
                }
            },
        },
    }


def _schemas(routes: Sequence[Route]) -> tuple[Schemas, dict[str, Any]]:
    models: list[type[BaseModel]] = [Problem]
    for route in routes:
        models += [m for m in (route.answers, route.body and route.body.model) if m is not None]
        models += [route.dry_run.answer] if route.dry_run else []
    references, definitions = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(models)],
        ref_template="#/components/schemas/{model}",
    )
    return {model: reference for (model, _), reference in references.items()}, definitions["$defs"]


def _operation(route: Route, references: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": route.name, "summary": _summary(route)}
    told = [f"The command `{route.command.subject}`."] if route.command is not None else []
    told += [f"Needs the role `{route.role}`."] if route.role is not None else []
    if told:
        operation["description"] = " ".join(told)
    operation["tags"] = [route.path.split("/")[1]]
    operation["security"] = [] if route.role is None else [{"token": [route.role.value]}]
    if parameters := [*_path_parameters(route), *_query_parameters(route), *_headers(route)]:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = _request_body(route.body, references)
    operation["responses"] = {str(status): _response(route, status, references) for status in _order(route)}
    return operation


def _order(route: Route) -> Iterable[int]:
    return sorted(route.statuses)


def _summary(route: Route) -> str:
    described = route.command.__doc__ if route.command is not None else ""
    return route.summary or inspect.cleandoc(described or "").splitlines()[0]


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS[name]}
        for name in route.path_fields
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema()
    assert "$defs" not in schema, "parameters of a query are plain"
    return [
        {
            "name": name,
            "in": "query",
            **({"description": content.pop("description")} if "description" in content else {}),
            "schema": _without_null(content),
        }
        for name, content in schema["properties"].items()
    ]


def _without_null(content: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is left out: there is no null in a query."""
    options = [option for option in content.get("anyOf", ()) if option != {"type": "null"}]
    plain = {key: value for key, value in content.items() if key not in ("anyOf", "title")}
    if plain.get("default", ...) is None:
        del plain["default"]
    return plain | (options[0] if options else {})


def _headers(route: Route) -> list[dict[str, Any]]:
    if route.resumes:
        return [
            _header(
                "Last-Event-ID",
                "Serial number of the last event that the client has: goes on after it.",
                {"type": "integer", "minimum": 0, "maximum": LARGEST_SERIAL},
            )
        ]
    key = _header(
        "Idempotency-Key",
        "Sent again with the same key, the request has the effect of one.",
        {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN},
    )
    if not route.changing:
        return [key] if route.keyed else []
    return [
        key,
        _header(
            "Prefer",
            f"`wait=N` answers when all is done, at the latest after N seconds, at most {MAX_WAIT_S} "
            "(RFC 7240); otherwise 202 comes as soon as the request is durably accepted.",
            {"type": "string"},
        ),
    ]


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _request_body(body: Body, references: Schemas) -> dict[str, Any]:
    schema: dict[str, Any] = references[body.model]
    description = ""
    if body.patch:
        schema = {"type": "object"}
        description = f"A merge patch (RFC 7396) of the {body.model.__name__}: null takes a field away."
    if body.other_formats:
        schema = {"anyOf": [schema, {"type": "object"}, {"type": "array", "items": {"type": "object"}}]}
        description = "A pipeline in Towpath's own format, or in SpecK's."
    example = {} if body.example is None else {"example": body.example}
    return {
        **({"description": description} if description else {}),
        "required": not body.optional,
        "content": {media_type: {"schema": schema, **example} for media_type in body.media_types},
    }


def _response(route: Route, status: int, references: Schemas) -> dict[str, Any]:
    if status not in (200, 201, 202):
        return _problem(status, references)
    response: dict[str, Any] = {"description": _good(route, status)}
    if status == 201 or status == 202:
        about = "Where it is." if status == 201 else "Where to follow what is under way."
        response["headers"] = {
            "Location": {"description": about, "schema": {"type": "string"}, "required": True}
        }
    response["content"] = _content(route, status, references)
    return response


def _content(route: Route, status: int, references: Schemas) -> dict[str, Any]:
    if route.streams:
        return {EVENT_STREAM: {"schema": {"type": "string"}, **_streamed(route, references)}}
    if route.media_type != JSON:
        return {route.media_type: {"schema": {"type": "string"}}}
    if route.answers is None:
        return {JSON: {"schema": {"type": "object"}}}
    schema: dict[str, Any] = references[route.answers]
    if route.dry_run is not None and status == 200:
        schema = {"anyOf": [references[route.dry_run.answer], schema]}
    return {JSON: {"schema": schema}}


def _streamed(route: Route, references: Schemas) -> dict[str, Any]:
    """Return the schema of each event's data. OpenAPI 3.1 has no word for it: an extension has 3.2's name."""
    return {} if route.answers is None else {"x-itemSchema": references[route.answers]}


def _good(route: Route, status: int) -> str:
    if status == 202:
        return "Durably accepted, and under way."
    if status == 201:
        return "Done: it exists now."
    if route.dry_run is not None:
        return "What it would do, or there was nothing to do."
    return "Done, or there was nothing to do." if route.changing else "The answer."


def _problem(status: int, references: Schemas) -> dict[str, Any]:
    response: dict[str, Any] = {"description": MEANINGS[status]}
    if status == 401:
        response["headers"] = {
            "WWW-Authenticate": {
                "description": "How to log in.",
                "schema": {"type": "string"},
                "required": True,
            }
        }
    if status in RETRIED:
        response["headers"] = {
            "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}
        }
    response["content"] = {PROBLEM: {"schema": references[Problem]}}
    return response
