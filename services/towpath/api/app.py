"""The wiring of the REST interface."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

from aiohttp import web

from towpath.api.admission import Admission, accept
from towpath.api.coordinator import Coordinator
from towpath.api.handlers.answers import AnswerRoutes
from towpath.api.handlers.collector import CollectorRoutes
from towpath.api.handlers.commands import CommandRoutes
from towpath.api.handlers.events import EventRoutes, LiveRoutes
from towpath.api.handlers.itself import ServiceRoutes
from towpath.api.handlers.jobs import JobRoutes, MigrationRoutes
from towpath.api.handlers.page import PageRoutes
from towpath.api.handlers.pipelines import PipelineRoutes
from towpath.api.handlers.queries import QueryRoutes
from towpath.api.problems import problems
from towpath.api.request_spans import traced
from towpath.api.routing import TABLE, Answering, add_route
from towpath.api.settings import ApiSettings
from towpath.api.webhooks import serve_webhooks
from towpath.bus import Bus
from towpath.contracts.rest import MAX_BODY_BYTES
from towpath.contracts.rest_routes import PAGE, ROUTES
from towpath.mesh.service_process import at_hub
from towpath.mesh.tls_files import server_context
from towpath.mesh.tokens import KnownTokens
from towpath.tasks import end

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024
"""Length of a request's first line. It has room for all patterns that a query of series may name."""

SHUTDOWN_S = 3.0
"""Time for requests under way when the service ends.

Open event streams end at once, except for clients that do not read."""


async def run(settings: ApiSettings, stop: asyncio.Event) -> None:
    """Answer requests until `stop` is set. Raises `OSError` when the port is taken."""
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        runner = web.AppRunner(
            application(settings, bus, stop),
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_S,
            access_log=None,
            max_line_size=MAX_LINE_BYTES,
        )
        webhooks = asyncio.create_task(serve_webhooks(bus), name="webhooks")
        try:
            await runner.setup()
            tls = server_context(settings.tls, asks_clients=False) if settings.tls else None
            await web.TCPSite(runner, settings.listen, settings.port, ssl_context=tls).start()
            log.info("listening on %s:%d", settings.listen, settings.port)
            await stop.wait()
        finally:
            await end([webhooks])
            await runner.cleanup()


def application(settings: ApiSettings, bus: Bus, stop: asyncio.Event) -> web.Application:
    """Return the application: each route of the table with its handler, behind a token of its role."""
    admission = Admission(KnownTokens(settings.home.tokens, settings.token), stop, bus.publish)
    made = web.Application(
        middlewares=[problems, admission.token, accept, traced], client_max_size=MAX_BODY_BYTES
    )
    made[TABLE] = {}
    made.cleanup_ctx.append(partial(_watching, admission))
    coordinator = Coordinator(bus)
    commands = CommandRoutes(coordinator)
    jobs, pipelines = JobRoutes(coordinator, commands), PipelineRoutes(coordinator, commands)
    queries = QueryRoutes(coordinator, commands)
    itself, metrics, page = ServiceRoutes(coordinator), CollectorRoutes(coordinator), PageRoutes()
    special: dict[str, Answering] = {
        "showJob": jobs.show,
        "updateJob": jobs.patch,
        "showMigration": MigrationRoutes(coordinator).show,
        "applyPipeline": pipelines.apply,
        "planPipeline": pipelines.plan,
        "runQueries": queries.run,
        "checkQueries": queries.check,
        "explainQueries": queries.explain,
        "listQueries": queries.list,
        "showQueries": queries.show,
        "removeQueries": queries.remove,
        "followAnswers": AnswerRoutes(settings, bus, queries).follow,
        "queryMetrics": metrics.query,
        "queryValues": metrics.query_values,
        "proposePlacement": metrics.propose_placement,
        "scrapeMetrics": metrics.scrape,
        "followEvents": EventRoutes(settings, bus).follow,
        "followMesh": LiveRoutes(settings, bus).follow,
        "showPage": page.show,
        "showPageFile": page.show,
        "describe": itself.describe,
        "checkHealth": itself.health,
    }
    for route in (*ROUTES, *PAGE):
        add_route(made, route, special.get(route.name, commands.answer))
    return made


async def _watching(admission: Admission, _: web.Application) -> AsyncIterator[None]:
    """End event streams in time, as long as the application runs."""
    watching = asyncio.create_task(admission.watch(), name="tokens")
    yield
    await end([watching])
