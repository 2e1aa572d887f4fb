"""Check, explain, run and join query texts, and show those that run. Each running text is a pipeline."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from aiohttp import web

from towpath.api.coordinator import Coordinator
from towpath.api.handlers.commands import CommandRoutes, given_fields
from towpath.api.reading import json_of, no_query, path_parameter, validated
from towpath.api.responses import answered
from towpath.composition.job_changes import begin_again
from towpath.contracts.commands import ListJobs, ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.pipeline import PipelineView
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, ListPipelines, ShowPipeline
from towpath.contracts.query import (
    QueriesToCheck,
    QueriesToExplain,
    QueriesToRun,
    RunningQueries,
    RunningQueriesList,
)
from towpath.contracts.rest import Route
from towpath.queries.compilation import Asked, Compiled, compiled
from towpath.queries.explanation import explanation
from towpath.queries.half_written import checked
from towpath.queries.joining import Joined
from towpath.queries.running import (
    all_running_queries,
    check_name,
    check_removal,
    running_queries,
    with_text,
    without,
)

ModelT = TypeVar("ModelT", bound=Model)


class QueryRoutes:
    """Accepts query texts, and shows those that run."""

    def __init__(self, coordinator: Coordinator, commands: CommandRoutes) -> None:
        self._coordinator = coordinator
        self._commands = commands

    async def check(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send what is wrong with a text, or its queries; and the words that may stand at the cursor."""
        asked = await self._body(route, request, QueriesToCheck)
        sites, jobs = await asyncio.gather(self._sites(), self._coordinator.ask(ListJobs()))
        ends = [end for job in jobs.jobs for end in (*job.spec.inputs, job.spec.output)]
        topics = {end.topic for end in ends if end.topic is not None}
        # In a thread, as all texts are read: a long one takes longer than other requests should wait.
        return answered(await asyncio.to_thread(checked, asked, topics=topics, sites=sites))

    async def explain(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send what a text would compute where."""
        wanted = await self._body(route, request, QueriesToExplain)
        if not wanted.into:
            return answered(explanation(await self._compiled(wanted)))
        view, found = await self._joined(wanted)
        dropped = begin_again(view.spec, found.compiled.pipeline)
        return answered(explanation(found.compiled, found.added, dropped))

    async def run(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Apply the pipeline of a text, or of a running one that it joins.

        It replaces one that answers queries, and no other.
        """
        wanted = await self._body(route, request, QueriesToRun)
        fields: dict[str, Any] = {"drop_state": wanted.drop_state}
        if wanted.into:
            view, found = await self._joined(wanted, wanted.trigger_s, wanted.webhook)
            fields |= {"spec": found.compiled.pipeline, "expected_apply": view.apply.apply}
        else:
            fields["spec"] = (await self._compiled(wanted, wanted.trigger_s, wanted.webhook)).pipeline
            await check_name(wanted.name, self._coordinator.ask)
        accepted = await self._commands.accept(request, ApplyPipeline, fields)
        return await self._commands.finish(route, request, *accepted)

    async def list(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send all texts that run."""
        no_query(request)
        found = await self._coordinator.ask(ListPipelines())
        queries = await asyncio.to_thread(all_running_queries, found.pipelines)
        return answered(RunningQueriesList(queries=queries))

    async def show(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send a text that runs."""
        no_query(request)
        return answered(await self.running(path_parameter(request, "name")))

    async def remove(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Delete the pipeline of a text, and no other pipeline; or take one query out of it."""
        fields = given_fields(request, route) | {"pipeline": path_parameter(request, "name")}
        query, drop_state = fields.pop("query"), fields.pop("drop_state")
        if query is None:
            await check_removal(fields["pipeline"], self._coordinator.ask)
            accepted = await self._commands.accept(request, DeletePipeline, fields)
            return await self._commands.finish(route, request, *accepted)
        if fields["purge"]:
            what = "the answers of all queries of a text are on one topic"
            raise TowpathError(
                ErrorCode.INVALID, what, field="purge", value=True, allowed="false, with a query"
            )
        view = await self._coordinator.ask(ShowPipeline(pipeline=fields["pipeline"]))
        left = await asyncio.to_thread(without, view, await self._sites(), query)
        change = {"spec": left.pipeline, "drop_state": drop_state, "expected_apply": view.apply.apply}
        accepted = await self._commands.accept(request, ApplyPipeline, {**change, "now": fields["now"]})
        return await self._commands.finish(route, request, *accepted)

    async def running(self, name: str) -> RunningQueries:
        """Return the text that runs under a name. Raises `TowpathError` if there is none."""
        view = await self._coordinator.ask(ShowPipeline(pipeline=name))
        return await asyncio.to_thread(running_queries, view)

    async def _body(self, route: Route, request: web.Request, model: type[ModelT]) -> ModelT:
        no_query(request)
        assert route.body is not None, "a text is in a body"
        return validated(model, await json_of(request, route.body))

    async def _compiled(
        self,
        wanted: QueriesToExplain | QueriesToRun,
        trigger_s: float | None = None,
        webhook: str | None = None,
    ) -> Compiled:
        sites = await self._sites()
        asked = Asked(wanted.name, wanted.at or "", wanted.text, wanted.filled, sites, trigger_s, webhook)
        return await asyncio.to_thread(compiled, asked)

    async def _joined(
        self,
        wanted: QueriesToExplain | QueriesToRun,
        trigger_s: float | None = None,
        webhook: str | None = None,
    ) -> tuple[PipelineView, Joined]:
        """Return the running text that a text wants to join, and both together."""
        view = await self._coordinator.ask(ShowPipeline(pipeline=wanted.name))
        given = {"at": wanted.at, "filled": wanted.filled, "trigger_s": trigger_s, "webhook": webhook}
        return view, await asyncio.to_thread(with_text, view, await self._sites(), wanted.text, **given)

    async def _sites(self) -> list[str]:
        return [view.site for view in (await self._coordinator.ask(ListSites())).sites]
