"""Single jobs and migrations. The coordinator's commands are for all jobs, for whole specifications, or for
operations of any kind."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import web

from towpath.api.coordinator import Coordinator
from towpath.api.handlers.commands import CommandRoutes, given_fields
from towpath.api.reading import json_of, no_query, path_parameter, validated
from towpath.api.responses import answered
from towpath.contracts.commands import JobView, ListJobs, OperationKind, ShowOperation, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.rest import Route


class JobRoutes:
    """Shows one job, and changes parts of one."""

    def __init__(self, coordinator: Coordinator, commands: CommandRoutes) -> None:
        self._coordinator = coordinator
        self._commands = commands
        self._patching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def show(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send one of the jobs that the coordinator lists."""
        no_query(request)
        return answered(await self._job(path_parameter(request, "name")))

    async def patch(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Apply a merge patch to the job's specification, and update the job to the result."""
        name = path_parameter(request, "name")
        fields = given_fields(request, route)
        assert route.body is not None, "a patch has a body"
        patch = await json_of(request, route.body)
        # One after another, because each patch applies to the result of the one before it.
        lock = self._patching.setdefault(name, asyncio.Lock())
        async with lock:
            view = await self._job(name)
            if view.operation is not None and "Idempotency-Key" not in request.headers:
                raise _being_changed(view)
            fields["spec"] = patched(view.spec, patch)
            fields["keep_code"] = not names_code(patch)
            accepted = await self._commands.accept(request, UpdateJob, fields)
        return await self._commands.finish(route, request, *accepted)

    async def _job(self, name: str) -> JobView:
        return (await self._coordinator.ask(ListJobs())).named(name, field="name")


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


def names_code(patch: Any) -> bool:
    """True if a patch names the job's code. Only then the code is read again from its path."""
    operator = patch.get("operator") if isinstance(patch, dict) else None
    return isinstance(operator, dict) and "artefact" in operator


def patched(spec: JobSpec, patch: Any) -> JobSpec:
    """Return the specification with a merge patch applied. Raises `TowpathError` (invalid)."""
    if not isinstance(patch, dict):
        raise TowpathError(ErrorCode.INVALID, "a merge patch of a job must be an object", allowed="an object")
    changed = validated(JobSpec, merge(spec.model_dump(mode="json"), patch))
    if changed.name != spec.name:
        raise TowpathError(
            ErrorCode.INVALID,
            "a job cannot be renamed",
            field="name",
            value=changed.name,
            allowed=[spec.name],
        )
    return changed


def _being_changed(view: JobView) -> TowpathError:
    """Return the refusal of a patch whose job is being changed, because its result would be unknown."""
    return TowpathError(
        ErrorCode.BUSY,
        f"operation {view.operation} on this job is under way",
        field="name",
        value=view.spec.name,
        allowed=f"a patch after operation {view.operation} has ended",
    )


def merge(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` applied: objects member by member, and null removes a member.

    Anything but an object replaces the target, lists too. Neither argument is changed.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
