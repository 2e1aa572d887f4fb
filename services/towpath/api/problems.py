"""Turn errors into problem details (RFC 9457), with a status that the route's description announces."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from aiohttp import web

from towpath.api.routing import Handler, methods_of_path, route_of
from towpath.contracts.errors import RETRYABLE, ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.rest import MEANINGS, PROBLEM, STATUS, Problem, Route

log = logging.getLogger(__name__)

RETRY_AFTER_S = 2
"""Pause that a client is asked for: a site's agent and the coordinator restart within a few seconds."""


class Refusal(TowpathError):
    """A request refused by HTTP's rules, with a status and headers of its own."""

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        value: object = None,
        allowed: str | list[str] | None = None,
        errors: Sequence[ErrorDetail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, message, field=field, value=value, allowed=allowed, errors=errors)
        self.status = status
        self.headers = headers or {}


def problem(error: TowpathError, route: Route | None) -> web.Response:
    """Return the response to a request that failed."""
    detail = error.detail.suggesting()
    status = error.status if isinstance(error, Refusal) else status_of(detail, route)
    headers = dict(error.headers) if isinstance(error, Refusal) else {}
    if detail.code in RETRYABLE:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    body = Problem(
        type=f"urn:towpath:error:{detail.code.value}",
        title=MEANINGS.get(status, HTTPStatus(status).phrase),
        status=status,
        detail=detail.message,
        code=detail.code,
        field=_field(detail, route),
        value=_encodable(detail.value),
        allowed=detail.allowed,
        errors=detail.errors,
    )
    text = body.model_dump_json(exclude_none=True)
    return web.Response(text=text, status=status, headers=headers, content_type=PROBLEM)


def _field(detail: ErrorDetail, route: Route | None) -> str | None:
    """Return the field, or the parameter of the path that the route puts into it."""
    if route is not None and detail.code is route.addressed:
        parameters = {field: parameter for parameter, field in route.path_fields.items()}
        return parameters.get(detail.field or "", detail.field)
    return detail.field


def _encodable(value: object) -> object:
    """Return the value as JSON can carry it: text of a header or a path may hold bytes that are not text."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def status_of(detail: ErrorDetail, route: Route | None) -> int:
    """Return the error's HTTP status. One that the route does not announce is a fault of the mesh: 500."""
    if route is None:
        return STATUS[detail.code]
    status = 404 if detail.code is route.addressed else STATUS[detail.code]
    return status if status in route.errors else HTTPStatus.INTERNAL_SERVER_ERROR


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Respond to any failure with a problem. This is the outermost middleware."""
    route = route_of(request)
    try:
        return await handler(request)
    except TowpathError as error:
        return problem(error, route)
    except web.HTTPException as error:
        return problem(_of_http(error, request), route)
    except ConnectionError:
        raise
    except Exception as error:
        log.exception("%s %s failed", request.method, request.path)
        return problem(TowpathError(ErrorCode.FAILED, f"{type(error).__name__}: {error}"[:500]), route)


def _of_http(error: web.HTTPException, request: web.Request) -> TowpathError:
    """Return a refusal of the server itself as one of Towpath."""
    if isinstance(error, web.HTTPNotFound):
        return Refusal(404, ErrorCode.UNKNOWN_COMMAND, "there is no such path", value=request.path)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = sorted(methods_of_path(request) or error.allowed_methods)
        return Refusal(
            405,
            ErrorCode.NOT_ALLOWED,
            "this path does not have this method",
            value=request.method,
            allowed=allowed,
            headers={"Allow": ", ".join(allowed)},
        )
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return Refusal(413, ErrorCode.INVALID, "the body is too large", allowed=MEANINGS[413])
    code = ErrorCode.INVALID if error.status < 500 else ErrorCode.FAILED
    return Refusal(error.status, code, error.reason)
