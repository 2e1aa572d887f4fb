"""Requests become the fields of a command: path, query and body, each checked against its model."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import pydantic_core
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from towpath.api.problems import refusal
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Identifier, JobName, Model
from towpath.contracts.rest import Body, Route

ModelT = TypeVar("ModelT", bound=Model)

NAME: TypeAdapter[str] = TypeAdapter(JobName)
IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)
PATH_PARAMETERS = {"name": NAME, "id": IDENTIFIER}


def path_parameter(request: web.Request, parameter: str) -> str:
    """A parameter of the path. Raises `TowpathError` (invalid)."""
    given = request.match_info[parameter]
    try:
        return PATH_PARAMETERS[parameter].validate_python(given)
    except ValidationError as error:
        allowed = error.errors()[0].get("ctx", {}).get("pattern")
        raise TowpathError(
            ErrorCode.INVALID, "not a name", field=parameter, value=given, allowed=allowed
        ) from error


def path_fields(request: web.Request, route: Route) -> dict[str, str]:
    """Field of the command → parameter of the path."""
    return {field: path_parameter(request, name) for name, field in route.path_fields.items()}


def query_of(request: web.Request, model: type[ModelT]) -> ModelT:
    """The parameters of the query. Raises `TowpathError` (invalid), also for ones that there are not."""
    given = {name: _parameter(request, model, name) for name in request.query}
    try:
        # As JSON, so that "yes" or "1" is no boolean: the description says what is.
        return model.model_validate_json(pydantic_core.to_json(given), strict=True)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


class _Nothing(Model):
    """A query without parameters."""


def no_query(request: web.Request) -> None:
    """Raise `TowpathError` (invalid) when there are parameters all the same."""
    query_of(request, _Nothing)


def _parameter(request: web.Request, model: type[Model], name: str) -> Any:
    values = request.query.getall(name)
    if name not in model.model_fields:
        raise TowpathError(
            ErrorCode.INVALID,
            "no such parameter",
            field=name,
            value=values[0][:200],
            allowed=sorted(model.model_fields) or "none",
        )
    annotation = model.model_fields[name].annotation
    if get_origin(annotation) is list:
        return values
    if len(values) > 1:
        raise TowpathError(ErrorCode.INVALID, "given twice", field=name, allowed="once")
    return values[0] if annotation in (str, str | None) else _plain(values[0])


def _plain(value: str) -> Any:
    """A number or a boolean as it is written in JSON; anything else stays text, and is refused as such."""
    try:
        parsed = pydantic_core.from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
    return parsed if isinstance(parsed, int | float) else value


async def text_of(request: web.Request, body: Body) -> str:
    """The body as text. Raises `TowpathError`: of another media type (415), not readable (400)."""
    given = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if given not in body.media_types:
        raise refusal(
            415,
            ErrorCode.INVALID,
            "not a media type of this body",
            field="Content-Type",
            value=given or None,
            allowed=list(body.media_types),
            headers={"Accept-Patch": ", ".join(body.media_types)} if body.patch else None,
        )
    try:
        return (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise refusal(400, ErrorCode.INVALID, "the body is not UTF-8") from error


async def json_of(request: web.Request, body: Body) -> Any:
    """The body's JSON. Raises `TowpathError`, see `text_of`."""
    text = await text_of(request, body)
    try:
        return pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise refusal(400, ErrorCode.INVALID, f"the body is not JSON: {error}"[:300]) from error


async def body_of(request: web.Request, body: Body) -> Model:
    """The body as its model. Raises `TowpathError`: see `text_of`, and invalid."""
    if body.optional and not request.can_read_body:
        return body.model()
    return validated(body.model, await json_of(request, body))


def validated(model: type[ModelT], content: Any) -> ModelT:
    """`content`, which came as JSON, as `model`: no type passes for another. Raises `TowpathError`."""
    try:
        return model.model_validate_json(pydantic_core.to_json(content), strict=True)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
