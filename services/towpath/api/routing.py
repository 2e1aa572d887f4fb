"""Which route of the table a request belongs to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from towpath.contracts.rest import Route

Answering = Callable[[Route, web.Request], Awaitable[web.StreamResponse]]
"""Answers the requests of one route."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
"""What the server, or a middleware, calls for a request."""

TABLE: web.AppKey[dict[web.AbstractRoute, Route]] = web.AppKey("table", dict)
"""The server's own routes, and ours."""


def add_route(application: web.Application, route: Route, answering: Answering) -> None:
    """Have the requests of `route` answered."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answering(route, request)

    added = application.router.add_route(route.method, route.path, answer)
    application[TABLE][added] = route


def route_of(request: web.Request) -> Route | None:
    """The request's route; None when its path or method belongs to none."""
    return request.app[TABLE].get(request.match_info.route)
