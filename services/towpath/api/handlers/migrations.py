"""Migrations are operations of one kind. This handler refuses other kinds."""

from __future__ import annotations

from aiohttp import web

from towpath.api.coordinator import Coordinator
from towpath.api.reading import no_query, path_parameter
from towpath.api.responses import answered
from towpath.contracts.commands import OperationKind, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.rest import Route


class MigrationRoutes:
    """Shows one migration."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def show(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send one operation if it is a migration."""
        no_query(request)
        identifier = path_parameter(request, "id")
        view = await self._coordinator.ask(ShowOperation(operation=identifier))
        if view.kind is not OperationKind.MIGRATE:
            raise TowpathError(
                ErrorCode.UNKNOWN_MIGRATION,
                f"this operation is not a migration but a {view.kind}",
                field="id",
                value=identifier,
                allowed="the id of a migration",
            )
        return answered(view)
