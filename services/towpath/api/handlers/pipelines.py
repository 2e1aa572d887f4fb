"""Descriptions of pipelines, read in the client's format, with errors in the client's terms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from aiohttp import web

from towpath.api.coordinator import Coordinator
from towpath.api.handlers.commands import CommandRoutes, given_fields
from towpath.api.problems import Refusal
from towpath.api.reading import path_parameter, text_of
from towpath.api.responses import answered
from towpath.composition.documents import ReadDocument, read_document
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorDetail, TowpathError
from towpath.contracts.pipeline_commands import ApplyPipeline, PlanPipeline
from towpath.contracts.rest import Route


class PipelineRoutes:
    """Accepts descriptions of pipelines."""

    def __init__(self, coordinator: Coordinator, commands: CommandRoutes) -> None:
        self._coordinator = coordinator
        self._commands = commands

    async def apply(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Change the pipeline to what the description says."""
        document = await self._read(route, request)
        fields = given_fields(request, route) | {"spec": document.spec}
        with in_terms_of(document):
            accepted = await self._commands.accept(request, ApplyPipeline, fields)
            return await self._commands.finish(route, request, *accepted)

    async def plan(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send the changes that applying the description would make."""
        document = await self._read(route, request)
        command = PlanPipeline(spec=document.spec, **given_fields(request, route))
        with in_terms_of(document):
            return answered(await self._coordinator.ask(command))

    async def _read(self, route: Route, request: web.Request) -> ReadDocument:
        assert route.body is not None, "a description is a body"
        name = path_parameter(request, "name")
        given_fields(request, route)
        text = await text_of(request, route.body)
        sites = (await self._coordinator.ask(ListSites())).sites
        # In a thread: a large document takes longer than other requests should wait.
        read = partial(read_document, text, name=name, sites=sites, media_type=request.content_type)
        try:
            return await asyncio.to_thread(read)
        except TowpathError as error:
            wrong = error.detail
            if wrong.errors:
                raise
            # No single field is wrong: the text is not a document at all.
            place = {"field": wrong.field, "value": wrong.value, "allowed": wrong.allowed}
            raise Refusal(400, wrong.code, wrong.message, **place) from error


@contextmanager
def in_terms_of(document: ReadDocument) -> Iterator[None]:
    """Make errors name fields of the document that the client sent."""
    try:
        yield
    except TowpathError as error:
        # Refusals under HTTP's rules do not name fields of the document.
        if type(error) is not TowpathError:
            raise
        raise TowpathError.of(placed(error.detail, document)) from error


def placed(detail: ErrorDetail, document: ReadDocument) -> ErrorDetail:
    """Return the error with its fields, and those of the errors in it, as paths of the document."""
    field = None if detail.field is None else document.place(detail.field)
    errors = [placed(inner, document) for inner in detail.errors]
    return detail.model_copy(update={"field": field, "errors": errors})
