"""Read the fields of a command from path, query and body, each checked against its model."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import pydantic_core
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from towpath.api.problems import Refusal
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Identifier, JobName, Model
from towpath.contracts.rest import LARGEST_SERIAL, Body, Route

ModelT = TypeVar("ModelT", bound=Model)

NAME: TypeAdapter[str] = TypeAdapter(JobName)
IDENTIFIER: TypeAdapter[str] = TypeAdapter(Identifier)
PATH_PARAMETERS = {"name": NAME, "id": IDENTIFIER}


def path_parameter(request: web.Request, parameter: str) -> str:
    """Return a parameter of the path. Raises `TowpathError` (invalid)."""
    given = request.match_info[parameter]
    try:
        return PATH_PARAMETERS[parameter].validate_python(given)
    except ValidationError as error:
        allowed = error.errors()[0].get("ctx", {}).get("pattern")
        raise TowpathError(
            ErrorCode.INVALID, "this is not a valid name", field=parameter, value=given, allowed=allowed
        ) from error


def path_fields(request: web.Request, route: Route) -> dict[str, str]:
    """Return field of the command → parameter of the path."""
    return {field: path_parameter(request, name) for name, field in route.path_fields.items()}


def query_of(request: web.Request, model: type[ModelT]) -> ModelT:
    """Return the parameters of the query. Raises `TowpathError` (invalid), also for unknown ones."""
    given = {name: _parameter(request, model, name) for name in request.query}
    try:
        # Read as JSON, so that "yes" or "1" is not a boolean: the description names the right forms.
        return model.model_validate_json(pydantic_core.to_json(given), strict=True)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


class _Nothing(Model):
    """A query without parameters."""


def no_query(request: web.Request) -> None:
    """Raise `TowpathError` (invalid) if the query has parameters."""
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
        raise TowpathError(ErrorCode.INVALID, "this parameter is given twice", field=name, allowed="once")
    return values[0] if annotation in (str, str | None) else _plain(values[0])


def _plain(value: str) -> Any:
    """Return a number or boolean written as in JSON. Other text stays text, which the model then refuses."""
    try:
        parsed = pydantic_core.from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
    return parsed if isinstance(parsed, int | float) else value


def last_event_id(request: web.Request) -> int | None:
    """Return the serial number that a client which comes back has. None if it has none, or an empty one.

    Raises `TowpathError` (invalid).
    """
    given = request.headers.get("Last-Event-ID", "").strip()
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and int(given) <= LARGEST_SERIAL):
        raise TowpathError(
            ErrorCode.INVALID,
            "this is not a serial number",
            field="Last-Event-ID",
            value=given[:200],
            allowed="the id of an event",
        )
    return int(given)


async def text_of(request: web.Request, body: Body) -> str:
    """Return the body as text. Raises `TowpathError`: another media type (415), not readable (400)."""
    given = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if given not in body.media_types:
        raise Refusal(
            415,
            ErrorCode.INVALID,
            "this path does not take a body of this media type",
            field="Content-Type",
            value=given or None,
            allowed=list(body.media_types),
            headers={"Accept-Patch": ", ".join(body.media_types)} if body.patch else None,
        )
    try:
        return (await request.read()).decode()
    except UnicodeDecodeError as error:
        raise Refusal(400, ErrorCode.INVALID, "the body is not UTF-8") from error


async def json_of(request: web.Request, body: Body) -> Any:
    """Return the body's JSON. Raises `TowpathError`, see `text_of`."""
    text = await text_of(request, body)
    try:
        return pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(400, ErrorCode.INVALID, f"the body is not JSON: {error}"[:300]) from error


async def body_of(request: web.Request, body: Body) -> Model:
    """Return the body as its model. Raises `TowpathError`, as `text_of` or because it is invalid."""
    if body.optional and not request.can_read_body:
        return body.model()
    return validated(body.model, await json_of(request, body))


def validated(model: type[ModelT], content: Any) -> ModelT:
    """Validate JSON content as `model`, without conversion of types. Raises `TowpathError`."""
    try:
        return model.model_validate_json(pydantic_core.to_json(content), strict=True)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
