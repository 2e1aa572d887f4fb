"""Refuse changes of jobs and pipelines from before the run that could not be put back: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.composition.job_changes import is_state_compatible
from towpath.contracts.commands import DeployJob, JobView, MigrateJob, RemoveJob, StrategyName, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import Command
from towpath.contracts.pipeline import ApplyState, PipelineView
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.standby import FailOverJob
from towpath.operators.kind import keeps_state
from towpath.protocols.table import strategies

WAY_OUT = "a job or pipeline that the scenario itself brings"


@dataclass(frozen=True)
class Standing:
    """The jobs and pipelines of a mesh at one moment, by name."""

    jobs: Mapping[str, JobView] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineView] = field(default_factory=dict)


def check_reversible(change: Command[Any], before: Standing) -> None:
    """Raise `TowpathError` if a change could not be put back, given the state `before` the run."""
    match change:
        case DeployJob() if change.spec.name in before.jobs:
            raise TowpathError(
                ErrorCode.NAME_IN_USE,
                "a job of this name was there before the run",
                field="name",
                value=change.spec.name,
                allowed="another name; or name the job in mesh.jobs, and do not deploy it",
            )
        case RemoveJob() | FailOverJob() if change.job in before.jobs:
            raise irreversible("the job was there before the run", "job", change.job)
        case UpdateJob() if change.spec.name in before.jobs:
            if change.drop_state:
                raise irreversible("the job had its state before the run", "drop_state", True)
            _check_spec(before.jobs[change.spec.name].spec, change.spec)
        case MigrateJob() if change.job in before.jobs:
            _check_state_kept(before.jobs[change.job].spec, change.strategy)
        case ApplyPipeline() if change.spec.name in before.pipelines:
            _check_apply(change, before)
        case _:
            return


def _check_apply(change: ApplyPipeline, before: Standing) -> None:
    was = before.pipelines[change.spec.name]
    if was.apply.state is not ApplyState.COMPLETED:
        message = f"the last apply of this pipeline is {was.apply.state}: there is no state to go back to"
        raise irreversible(message, "apply.name", was.pipeline)
    wanted = {job.name: job for job in change.spec.jobs}
    for old in was.spec.jobs:
        new = wanted.get(old.name)
        if new is None:
            raise irreversible("the job was there before the run", "apply.jobs without", old.name)
        known = before.jobs.get(old.name)
        _check_spec(old.job_spec() if known is None else known.spec, new.job_spec())
        if known is not None and known.site != new.site:
            _check_state_kept(known.spec, new.strategy)


def _check_spec(old: JobSpec, new: JobSpec) -> None:
    """Check that a job keeps inputs and outputs, and that its state survives the change and its undoing."""
    if [entry.name for entry in new.inputs] != [entry.name for entry in old.inputs]:
        raise irreversible("the job would lose its place in its inputs", f"{old.name}.inputs", _names(new))
    output_site = new.output.site or old.output_site
    written = (output_site, new.output.topic, new.output.rejected_topic)
    if written != (old.output_site, old.output.topic, old.output.rejected_topic):
        value = f"{output_site}/{new.output.topic}"
        raise irreversible("results would stay in the other topic", f"{old.name}.output", value)
    if not is_state_compatible(old, new):
        raise irreversible("its state would not survive", f"{old.name}.operator", new.operator.kind)


def _check_state_kept(spec: JobSpec, strategy: StrategyName) -> None:
    loses_state = strategy is not StrategyName.AUTO and strategies()[strategy].loses_state
    if loses_state and keeps_state(spec.operator):
        raise irreversible(f"it would throw the state of {spec.name} away", "strategy", strategy.value)


def irreversible(message: str, field: str, value: Any) -> TowpathError:
    """Return the refusal of a change that could not be put back."""
    text = f"{message}, and this could not be put back"
    return TowpathError(ErrorCode.NOT_ALLOWED, text, field=field, value=value, allowed=WAY_OUT)


def _names(spec: JobSpec) -> str:
    return ", ".join(entry.name for entry in spec.inputs)
