"""Routes whose request contains all that the command needs. One handler serves them all."""

from __future__ import annotations

import re
from typing import Any, cast

from aiohttp import web
from pydantic import ValidationError

from towpath.api.coordinator import Change, Coordinator
from towpath.api.problems import Refusal
from towpath.api.reading import body_of, no_query, path_fields, query_of
from towpath.api.responses import answered, carried_out
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Model, new_identifier
from towpath.contracts.rest import IDEMPOTENCY_KEY_PATTERN, MAX_WAIT_S, Route

_WAIT = re.compile(r"\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*(;.*)?", re.IGNORECASE)


def command_identifier(request: web.Request) -> str:
    """Return the identifier of the command: the `Idempotency-Key`, or a new one."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return new_identifier()
    if re.fullmatch(IDEMPOTENCY_KEY_PATTERN.strip("^$"), key) is None:
        raise Refusal(
            400,
            ErrorCode.INVALID,
            "this is not a valid key",
            field="Idempotency-Key",
            value=key[:200],
            allowed=IDEMPOTENCY_KEY_PATTERN,
        )
    return key.strip('"')


def wait_s(request: web.Request) -> int:
    """Return how many seconds the client prefers to wait for the end (RFC 7240). The default is 0.

    Preferences are not conditions, so unknown ones are ignored.
    """
    for header in request.headers.getall("Prefer", []):
        for preference in header.split(","):
            if (found := _WAIT.fullmatch(preference)) is not None:
                return min(int(found[1]), MAX_WAIT_S)
    return 0


DRY_RUN = "dry_run"
"""The one parameter that is not a field of the command: it selects another command."""


class CommandRoutes:
    """Translates requests into commands, and answers into responses."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def answer(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send a request's command and respond with its answer."""
        assert route.command is not None, "the route has a command"
        fields = path_fields(request, route) | given_fields(request, route)
        if route.body is not None:
            body = await body_of(request, route.body)
            fields |= {route.body.field: body} if route.body.field else fields_of(body)
        if fields.pop(DRY_RUN, False):
            assert route.dry_run is not None, "the route can be tried"
            wanted = {name: fields[name] for name in fields if name in route.dry_run.model_fields}
            return answered(await self._coordinator.ask(made(route.dry_run, wanted)))
        if not route.changing:
            command = made(route.command, {**fields, "id": command_identifier(request)})
            return answered(await self._coordinator.ask(command))
        return await self.finish(route, request, *await self.accept(request, route.command, fields))

    async def accept(
        self, request: web.Request, kind: type[Command[Any]], fields: dict[str, Any]
    ) -> tuple[Command[Any], Change]:
        """Wait until a command is durably accepted. The same `Idempotency-Key` makes the same command."""
        command = made(kind, {**fields, "id": command_identifier(request), "wait": False})
        return command, cast("Change", await self._coordinator.ask(command))

    async def finish(
        self, route: Route, request: web.Request, command: Command[Any], change: Change
    ) -> web.Response:
        """Wait for the end as long as the client prefers, and respond with the change as it is then."""
        wait = wait_s(request)
        if wait:
            change = await self._coordinator.ending(command, change, wait_s=wait)
        return carried_out(route, command, change, waited_s=wait)


def made(kind: type[Command[Any]], fields: dict[str, Any]) -> Command[Any]:
    """Return the command. Raises `TowpathError` (invalid) if its valid fields do not suit each other."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


def given_fields(request: web.Request, route: Route) -> dict[str, Any]:
    """Return fields that the route or the query sets. Raises `TowpathError` (invalid)."""
    if route.query is None:
        no_query(request)
        return dict(route.fixed)
    return dict(route.fixed) | fields_of(query_of(request, route.query))


def fields_of(model: Model) -> dict[str, Any]:
    """Return the fields of a model by name, as they are."""
    return {name: getattr(model, name) for name in type(model).model_fields}
