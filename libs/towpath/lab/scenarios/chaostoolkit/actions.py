"""Actions for experiments of Chaos Toolkit: each sends one command to the mesh under `TOWPATH_HOME`.

Rules are loaded with a lease of minutes, so that an experiment that dies leaves nothing behind for long.
Raises `TowpathError`, which Chaos Toolkit reports as the failure of the activity.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic import TypeAdapter

from towpath.bus import Bus
from towpath.contracts.commands import (
    DeployJob,
    ListJobs,
    MigrateJob,
    RemoveJob,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import EVENTS_WILDCARD
from towpath.contracts.faults import LONGEST_LEASE_S, LoadRules, UnloadRules
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command
from towpath.contracts.pipeline import ApplyPipeline, PipelineSpec
from towpath.contracts.scenario import Trigger
from towpath.contracts.scenario_load import ScenarioJob
from towpath.contracts.scenario_nodes import NodeStep
from towpath.lab.emulation.bringing_up import emulation
from towpath.lab.emulation.steps import carry_out
from towpath.lab.scenarios.chaostoolkit.connection import connected
from towpath.lab.scenarios.jobs import spec_of
from towpath.lab.scenarios.mesh_events import matches
from towpath.mesh.home import Home

__all__ = ["apply", "deploy", "load_rules", "migrate", "node", "remove", "scale", "unload_rules", "update"]

DEADLINE_S, ATTEMPT_S = 120.0, 10.0

Content = dict[str, Any]


def load_rules(rules: list[Content], lease_s: float = LONGEST_LEASE_S, on: Any = None) -> Content:
    """Load fault rules; they end by themselves after `lease_s` seconds."""
    return _send(LoadRules.model_validate({"rules": rules, "lease_s": lease_s}), on)


def unload_rules(names: list[str] | None = None, on: Any = None) -> Content:
    """Unload fault rules; null: all."""
    return _send(UnloadRules(names=names), on)


def migrate(job: str, to: str | None = None, on: Any = None, **options: Any) -> Content:
    """Move a job; without `to`, to the only other site."""
    return asyncio.run(_migrate(job, to, on, options))


def deploy(job: Content, on: Any = None) -> Content:
    """Deploy a job: a spec, or a standard one."""
    parsed: Any = TypeAdapter(ScenarioJob).validate_python(job)
    return _send(DeployJob(spec=spec_of(parsed)), on)


def update(spec: Content, drop_state: bool = False, on: Any = None) -> Content:
    """Change a job into this one."""
    return _send(UpdateJob(spec=JobSpec.model_validate(spec), drop_state=drop_state), on)


def scale(job: str, on: Any = None, **changes: Any) -> Content:
    """Change how much a job takes at a time, and how often."""
    return asyncio.run(_scale(job, changes, on))


def apply(spec: Content, on: Any = None) -> Content:
    """Apply a pipeline."""
    return _send(ApplyPipeline(spec=PipelineSpec.model_validate(spec)), on)


def remove(job: str, drain: bool = False, on: Any = None) -> Content:
    """Stop a job."""
    return _send(RemoveJob(job=job, drain=drain), on)


def node(do: str, on: Any = None, **details: Any) -> Content:
    """Do something to nodes of the emulated topology that is up under `TOWPATH_HOME`, to its end."""
    return asyncio.run(_node({"do": do, **details}, on))


def _send(command: Command[Any], on: Any) -> Content:
    return asyncio.run(_sent(command, on))


async def _sent(command: Command[Any], on: Any) -> Content:
    async with connected() as mesh:
        await _heard(mesh.bus, on)
        answer = await mesh.bus.request(command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
    return answer.model_dump(mode="json")


async def _migrate(job: str, to: str | None, on: Any, options: Content) -> Content:
    async with connected() as mesh:
        await _heard(mesh.bus, on)
        if to is None:
            view = await _view(mesh.bus, job)
            others = [site for site in mesh.state.sites if site != view.site]
            if len(others) != 1:
                raise TowpathError(ErrorCode.INVALID, "which site is not clear", field="to", allowed=others)
            [to] = others
        command = MigrateJob.model_validate({"job": job, "to": to, "strategy": StrategyName.AUTO, **options})
        answer = await mesh.bus.request(command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
    return answer.model_dump(mode="json")


async def _scale(job: str, changes: Content, on: Any) -> Content:
    async with connected() as mesh:
        await _heard(mesh.bus, on)
        view = await _view(mesh.bus, job)
        spec = JobSpec.model_validate(view.spec.model_dump() | changes)
        command = UpdateJob(spec=spec, keep_code=True)
        answer = await mesh.bus.request(command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
    return answer.model_dump(mode="json")


async def _node(content: Content, on: Any) -> Content:
    step: Any = TypeAdapter(NodeStep).validate_python(content)
    async with emulation(Home.default()) as running:
        await _heard(running.bus, on)
        await carry_out(running, step)
    return {"done": content}


async def _view(bus: Bus, job: str) -> Any:
    jobs = (await bus.request(ListJobs(), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)).jobs
    view = next((view for view in jobs if view.spec.name == job), None)
    if view is None:
        known = [view.spec.name for view in jobs]
        raise TowpathError(ErrorCode.UNKNOWN_JOB, "no such job", field="job", value=job, allowed=known)
    return view


async def _heard(bus: Bus, on: Any) -> None:
    """Wait for the event that an action is to come behind. Raises `TowpathError` when it does not come."""
    if on is None:
        return
    trigger = Trigger.model_validate({"event": on} if isinstance(on, str) else on)
    prefix = EVENTS_WILDCARD.removesuffix(">")
    subscription = await bus.connection.subscribe(EVENTS_WILDCARD)
    try:
        async with asyncio.timeout(trigger.within_s):
            async for message in subscription.messages:
                if matches(trigger, message.subject.removeprefix(prefix), json.loads(message.data)):
                    break
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.DEADLINE, f"did not come within {trigger.within_s:g} s", field="on", value=trigger.event
        ) from error
    await asyncio.sleep(trigger.after_s)
