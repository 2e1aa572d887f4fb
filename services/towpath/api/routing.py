"""Find the route of the table that a request belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from towpath.contracts.rest import Route

Answering = Callable[[Route, web.Request], Awaitable[web.StreamResponse]]
"""Function that answers the requests of one route."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""Function that the server, or a middleware, calls for a request."""

TABLE: web.AppKey[dict[web.AbstractRoute, Route]] = web.AppKey("table", dict)
"""The server's routes → the routes of the table."""


def add_route(application: web.Application, route: Route, answering: Answering) -> None:
    """Serve the requests of `route`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answering(route, request)

    added = application.router.add_route(route.method, route.path, answer)
    application[TABLE][added] = route


def methods_of_path(request: web.Request) -> set[str]:
    """Return the methods of a path that has routes as it is, also where it fits a pattern of other routes."""
    return {route.method for route in request.app[TABLE].values() if route.path == request.path}


def route_of(request: web.Request) -> Route | None:
    """Return the request's route. None if its path or method has none."""
    return request.app[TABLE].get(request.match_info.route)
