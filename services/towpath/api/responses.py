"""Turn answers of the coordinator into responses: status, place to follow, created resource."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from towpath.api.coordinator import UNDER_WAY, Change
from towpath.api.problems import Refusal
from towpath.contracts.commands import OperationAnswer
from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import Command, Model
from towpath.contracts.pipeline import Action, ApplyView
from towpath.contracts.rest import JSON, Route


def answered(answer: Model, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return an answer as JSON."""
    return web.Response(text=answer.model_dump_json(), status=status, headers=headers, content_type=JSON)


def carried_out(route: Route, command: Command[Any], change: Change, *, waited_s: float) -> web.Response:
    """Return the response to a change by its progress: done (200, 201) or under way (202).

    Raises `Refusal` (409) if it was waited for and did not succeed. A change that was not waited for is
    answered as the first time, also when the request is repeated. Its end is found at `Location`.
    """
    assert route.follow is not None, "a change can be followed"
    headers = {"Preference-Applied": f"wait={waited_s:g}"} if waited_s else {}
    if change.state == route.succeeds:
        if route.created is None or not _made(command, change):
            return answered(change, headers=headers)
        return answered(change, status=201, headers=headers | {"Location": _path(route.created, change)})
    if waited_s and change.state not in UNDER_WAY:
        raise _did_not_succeed(change)
    return answered(change, status=202, headers=headers | {"Location": _path(route.follow, change)})


def _path(template: str, change: Change) -> str:
    return template.format(**{name: getattr(change, name) for name in type(change).model_fields})


def _made(command: Command[Any], change: Change) -> bool:
    """True if the command created something."""
    if isinstance(change, OperationAnswer):
        # If there was nothing to do, the command's own identifier stands in for an operation.
        return change.operation != command.id
    return change.version == 1 and any(c.change.actions != [Action.KEEP] for c in change.changes)


def _did_not_succeed(change: Change) -> Refusal:
    if isinstance(change, ApplyView):
        message = f"apply {change.apply} of {change.pipeline}: {change.state}: {change.note}"
        errors = [view.error for view in change.changes if view.error is not None]
    else:
        message = f"operation {change.operation} ({change.kind} {change.job}): {change.state}: {change.note}"
        errors = []
    return Refusal(409, ErrorCode.FAILED, message, errors=errors)
